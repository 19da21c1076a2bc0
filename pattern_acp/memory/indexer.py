"""Keeps vectors in step with what is stored, and turns queries into vectors.

Owns: when texts are embedded, in which portions, and what happens when they cannot be. Must not know: who writes or
searches. Nothing here is on the way of a write: a stored text is found by its words at once and by its meaning as soon
as this has come to it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import anyio
from msgspec import Struct

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.memory import vectors
from pattern_acp.memory.embeddings import Embedder, EmbedderError, TextUse, Vector
from pattern_acp.memory.recall import without_speakers
from pattern_acp.memory.turns import names_of
from pattern_acp.memory.vectors import QueryVector, QueuedText, VectorTable
from pattern_acp.memory.write_validation import find_repeats, store_repeats

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)

BATCH = 32
"""Texts embedded at once. MiniLM takes half a second for as many, and storing them takes 2 ms of the write lock."""

MEND_STEPS = 256
"""Entries whose codes are brought up in one transaction: about 3 ms."""

CATCH_UP = 512
"""Texts that a search waits for when its embedder is immediate; beyond them it continues without."""

FRESH = 8
"""Texts that a search waits for when its embedder is not immediate: what was said a moment ago. Where more wait, as
after a change of the embedder, it continues without."""

FRESH_SECONDS = 1.0
"""Longest wait for them."""

QUERY_SECONDS = 2.0
"""Longest wait for the vector of a query; then the search goes by words alone."""

HURRIED_SECONDS = 0.08
"""The same for what is recalled before a turn, which waits 0.15 s in all."""

IDLE_SECONDS = 5.0
"""Between two looks for texts that other tasks and processes have stored."""

PORTION_SECONDS = 0.01
"""Between two portions, while many texts wait."""

LOOK_SECONDS = 60.0
"""Longest time between two looks for texts of processes that ended before they embedded them."""

TELLS_REPEATS = 0.5
"""Trust from which an embedder's vectors are asked for repeats; hashed n-grams were asked before the write."""

RETRY_SECONDS = 60.0
"""After a failure, which may be a server that is not running."""


class IndexState(Struct, frozen=True):
    """State of the vectors, as `doctor` shows it."""

    model: str
    waiting: int
    """Texts that are not embedded yet."""
    problem: str
    """Why the embedder does not work, in a sentence; empty when it does."""


class Indexer:
    """The embedder of one open constellation. Its texts and queries become vectors through this alone."""

    def __init__(self, database: Database, embedder: Embedder, clock: Clock) -> None:
        self._database = database
        self._embedder = embedder
        self._clock = clock
        self._table: VectorTable | None = None
        self._problem = ""
        self._failed_at = -RETRY_SECONDS
        self._one_at_a_time = anyio.Lock(fast_acquire=True)

    @property
    def is_immediate(self) -> bool:
        """True when a query never has to wait for the embedder."""
        return self._embedder.is_immediate

    async def prepare(self) -> None:
        """Load the embedder, so that the first prompt need not wait for it; a failure is that of the first query."""
        try:
            await self._embedder.prepare()
        except EmbedderError as error:
            self._fail(error.sentence)
        else:
            # Texts that came while it was being prepared failed.
            self._problem = ""

    async def ask(
        self,
        text: str,
        look: Callable[[Transaction, QueryVector | None], T],
        *,
        hurried: bool = False,
        beside: str = "",
    ) -> tuple[QueryVector | None, T]:
        """The vector of a query, as `query` has it, and the results of `look` with it, in one read where none waits."""
        is_immediate = self._embedder.is_immediate
        early = await self._embed(text, hurried=hurried, beside=beside, waits=not is_immediate)
        if early is None:
            return None, await self._database.read(lambda tx: look(tx, None))
        may_wait = is_immediate and not hurried

        def look_at_once(tx: Transaction) -> tuple[T] | None:
            if (may_wait and _is_awaited(tx, early.table, beside)) or without_speakers(tx, text) != text:
                return None
            return (look(tx, early),)

        found = await self._database.read(look_at_once)
        if found is not None:
            return early, found[0]
        vector = await self.query(text, hurried=hurried, beside=beside)
        return vector, await self._database.read(lambda tx: look(tx, vector))

    async def query(self, text: str, *, hurried: bool = False, beside: str = "") -> QueryVector | None:
        """The vector of a query, after what an immediate embedder still had to do; None: go by words alone.

        A `hurried` one waits `HURRIED_SECONDS` at most, and not for other texts: a model may have to be loaded first,
        and where several sessions talk, what one of them stores would be embedded in the turns of all others.
        `beside` is the source that the query leaves out, a session's own messages: it does not wait for those alone.
        Names of speakers are no part of the vector.
        """
        if names_of(text):
            text = await self._database.read(lambda tx, query=text: without_speakers(tx, query))
        return await self._embed(text, hurried=hurried, beside=beside, waits=True)

    async def _embed(self, text: str, *, hurried: bool, beside: str, waits: bool) -> QueryVector | None:
        """The vector of a text as it is; one that does not wait leaves it to its caller to see what is not embedded."""
        if not self._is_due():
            return None
        try:
            table = await self._open()
            if waits and not hurried:
                if not self._embedder.is_immediate:
                    await self._catch_up_with_fresh(table)
                elif await self._database.read(lambda tx: _is_awaited(tx, table, beside)):
                    await self.catch_up(CATCH_UP)
            with anyio.fail_after(HURRIED_SECONDS if hurried else QUERY_SECONDS):
                (vector,) = await self._embedder.embed((text,), TextUse.QUERY)
        except EmbedderError as error:
            self._fail(error.sentence)
            return None
        except TimeoutError:
            if hurried:
                return None
            self._fail(f"The embedder {self._embedder.model.name} took longer than {QUERY_SECONDS:.0f} s for a query.")
            return None
        self._problem = ""
        return QueryVector(table, self._embedder.model, vector) if any(vector) else None

    async def catch_up(self, at_most: int) -> int:
        """Embed up to about `at_most` texts that wait, and say how many that were.

        Raises:
            EmbedderError: the embedder does not work now.
        """
        done = 0
        table = await self._open()
        async with self._one_at_a_time:
            is_behind = False
            while done < at_most:
                batch, is_behind = await self._database.read(
                    lambda tx: (vectors.waiting(tx, table, BATCH), vectors.needs_mending(tx, table))
                )
                if not batch:
                    break
                made = await self._embedder.embed([one.text for one in batch], TextUse.STORED)
                stored, is_behind = await self._database.write(_storing(table, batch, made))
                await self._note_repeats(table, batch, made)
                done += len(batch)
                # Where every one of them changed meanwhile, the one who changed them has queued them again.
                if not stored or len(batch) < BATCH:
                    break
            if is_behind:
                await self._mend(table)
        return done

    async def run(self) -> None:
        """Embed whatever is stored, until cancelled. Failures are logged and tried again; words work meanwhile."""
        while True:
            seen = self._database.writes
            try:
                done = await self.catch_up(BATCH)
            except EmbedderError as error:
                self._fail(error.sentence)
                done = 0
            except DatabaseError:
                _LOGGER.warning("Texts could not be embedded.", exc_info=True)
                self._fail("The constellation could not be written.")
                done = 0
            if self._problem:
                await anyio.sleep(RETRY_SECONDS)
                self._problem = ""
            if not done:
                with anyio.move_on_after(LOOK_SECONDS):
                    await self._database.next_write(seen)
            await anyio.sleep(pause_after(done))

    async def _catch_up_with_fresh(self, table: VectorTable) -> None:
        """Embed what was stored a moment ago, which the query is likely to be about, if that is little."""
        if 0 < await self._database.read(lambda tx: vectors.count_waiting(tx, table, FRESH + 1)) <= FRESH:
            with anyio.move_on_after(FRESH_SECONDS):
                await self.catch_up(FRESH)

    async def state(self) -> IndexState:
        """Progress of the index."""
        table = await self._open()
        waiting = await self._database.read(lambda tx: vectors.count_waiting(tx, table, 1_000_000))
        return IndexState(self._embedder.model.name, waiting, self._problem)

    async def _note_repeats(self, table: VectorTable, batch: Sequence[QueuedText], made: Sequence[Vector]) -> None:
        model = self._embedder.model
        if model.trust < TELLS_REPEATS or model.is_rough:
            return
        stored = [(one.entry, vector) for one, vector in zip(batch, made, strict=True)]
        pairs = await self._database.read(lambda tx: find_repeats(tx, table, model, stored))
        if pairs:
            await self._database.write(lambda tx: store_repeats(tx, pairs))

    async def _open(self) -> VectorTable:
        if self._table is None:
            model, now_ms = self._embedder.model, self._clock.now_ms()
            extension = self._database.facts.vector_version is not None
            self._table = await self._database.write(
                lambda tx: vectors.open_model(tx, model, has_extension=extension, now_ms=now_ms)
            )
        return self._table

    async def _mend(self, table: VectorTable) -> None:
        while await self._database.read(lambda tx: vectors.needs_mending(tx, table)):
            await self._database.write(lambda tx: vectors.mend_codes(tx, table, MEND_STEPS))

    def _is_due(self) -> bool:
        return not self._problem or self._clock.monotonic() - self._failed_at >= RETRY_SECONDS

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            _LOGGER.warning("Search goes by words alone: %s", problem)
        self._problem, self._failed_at = problem, self._clock.monotonic()


def pause_after(embedded: int) -> float:
    """Seconds until the next look, after a portion of so many texts.

    A short pause leaves the processor and the write lock to the user's turn. A portion that is not full was all that
    waited. Where sessions talk all the time, something always waits: portions of one text after the other would be more
    commits than those of their turns.
    """
    return PORTION_SECONDS if embedded >= BATCH else IDLE_SECONDS


def _is_awaited(tx: Transaction, table: VectorTable, beside: str) -> bool:
    return vectors.is_waiting_beside(tx, table, beside) or vectors.needs_mending(tx, table)


def _storing(
    table: VectorTable, batch: tuple[QueuedText, ...], made: tuple[Vector, ...]
) -> Callable[[Transaction], tuple[int, bool]]:
    def store(tx: Transaction) -> tuple[int, bool]:
        stored = vectors.store_vectors(tx, table, tuple(zip(batch, made, strict=True)))
        # In the same commit, since a search may be waiting for both.
        vectors.mend_codes(tx, table, MEND_STEPS)
        return stored, vectors.needs_mending(tx, table)

    return store
