"""Search as a session uses it.

Owns: which entries a session sees, and the words in which a hit says where it is from and why it was found. Must not
know: how passages are found or ranked.
"""

from collections.abc import Callable, Iterable, Set
from datetime import date

from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock, SessionId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.reader import newest_event
from pattern_acp.journal.sessions import get_session
from pattern_acp.memory.blocks import MemoryFork, Scope, owner_outside
from pattern_acp.memory.dates import is_stale, local_bounds, stale_lines
from pattern_acp.memory.embeddings import EmbeddingModel
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.recall import (
    SearchResult,
    answer_to,
    is_guess,
    progress_notes,
    repeats_query,
    search,
    written_by,
)
from pattern_acp.memory.search_terms import ALL_KINDS, CURRENT_KINDS, TASK_ID, EntryKind, Filters
from pattern_acp.memory.service.access import MemoryFilter, MemoryHit
from pattern_acp.memory.sharing import shared_sources
from pattern_acp.memory.turns import says_nothing
from pattern_acp.memory.vectors import QueryVector

KNOWS_MEANING = 0.5
"""Trust from which an embedder's cosines say something on their own. Hashed n-grams have less: two questions of the
same form, one about the deployment and one about the payment process, come to 0.77 there."""


def knows(model: EmbeddingModel) -> bool:
    """True when a cosine of this model says something on its own."""
    return model.trust >= KNOWS_MEANING and not model.is_rough


SHOWN = 200
"""Characters that are shown of what holds now, beside a hit that was superseded."""

MOST_SEEN = 40
"""Most results that are looked at in addition, since they may be what the model sees anyway."""


_MESSAGES = frozenset({"user", "assistant"})

_ARCHIVE = frozenset({"archival", "superseded"})

_SESSION = late_pattern(r" session ses_\w+$")


class SessionSearch:
    """Search over what one session may see. `indexer` adds meaning to words; without one, words alone count."""

    def __init__(
        self,
        database: Database,
        owners: tuple[tuple[Scope, str], ...],
        session_id: str,
        *,
        clock: Clock,
        indexer: Indexer | None,
        fork: MemoryFork | None = None,
    ) -> None:
        """Search for a session; in a fork, also what those that it was forked from stored until then."""
        self._database = database
        self._fork = fork
        self._owners = owners
        self._session_id = session_id
        self.in_context: Callable[[], Set[str] | None] = lambda: None
        """The ids of the session's own messages that the model sees, once there are others; None while it sees all."""
        self._clock = clock
        self._indexer = indexer
        self.left_out_meaning = False
        """True once the embedder was too slow for a hurried search; who records it sets it back."""

    async def search(self, query: str, limit: int, narrowing: MemoryFilter) -> tuple[MemoryHit, ...]:
        """See `MemoryAccess.search`."""
        seen = self.in_context()
        filters = self._filters(narrowing)
        if seen is not None:
            filters = replace(filters, exclude_session="")
        now_ms = self._clock.now_ms()

        def look(tx: Transaction, vector: QueryVector | None) -> tuple[MemoryHit, ...]:
            found = find(tx, vector)
            knows_meaning = vector is not None and knows(vector.model)
            if narrowing.for_prompt:
                found = self._of_others(tx, query, found)
            guess = is_guess(found, query, vector)
            as_of = newest_event(tx) if narrowing.for_prompt and found else 0
            hits = (_hit(tx, one, now_ms=now_ms, knows_meaning=knows_meaning) for one in found)
            return tuple(replace(hit, is_guess=guess, as_of=as_of) for hit in hits)

        def find(tx: Transaction, vector: QueryVector | None) -> tuple[SearchResult, ...]:
            attached = (*self._attached(tx, narrowing, filters), *self._inherited(filters))
            wanted = limit if seen is None else limit + min(len(seen), MOST_SEEN)
            found = search(tx, query, filters, limit=wanted, now_ms=now_ms, vector=vector, attached=attached)
            found = _of_this_machine(tx, found, now_ms=now_ms)
            if seen is None or narrowing.session == self._session_id:
                return found[:limit]
            return tuple(one for one in found if one.source != self._session_id or one.item not in seen)[:limit]

        if self._indexer is None:
            return await self._database.read(lambda tx: look(tx, None))
        hurried = narrowing.hurried
        vector, hits = await self._indexer.ask(query, look, hurried=hurried, beside=filters.exclude_session)
        # An immediate embedder finds a query that says nothing to be like nothing, which is no failure.
        self.left_out_meaning |= hurried and vector is None and not self._indexer.is_immediate
        return hits

    def _of_others(self, tx: Transaction, query: str, found: tuple[SearchResult, ...]) -> tuple[SearchResult, ...]:
        """Results that this session did not write, but for what was said; an answer instead of a like question.

        What the agent said before its calls, such as “I look at the parser.”, tells nothing about them.
        """
        notes = progress_notes(tx, found)
        own = written_by(tx, self._session_id, [one.seq for one in found])
        others: list[SearchResult] = []
        for one in found:
            # What was said here and left the window is as far away as another session.
            if one.seq in notes or (one.seq in own and one.kind not in _MESSAGES):
                continue
            if one.kind not in _MESSAGES or not repeats_query(query, one.text):
                others.append(one)
            elif one.kind == "user" and (answer := answer_to(tx, one)) is not None and not says_nothing(answer.text):
                others.append(answer)
        return tuple(others)

    def _attached(self, tx: Transaction, narrowing: MemoryFilter, filters: Filters) -> tuple[Filters, ...]:
        """The further scopes of a search: each block that is attached, and nothing else of its owner."""
        if "block" not in filters.kinds or filters.session or narrowing.scope not in {"", Scope.SHARED.value}:
            return ()
        return tuple(
            replace(filters, owners=(owner,), kinds=("block",), session=block_id, exclude_session="")
            for block_id, owner in shared_sources(tx, self._owners).items()
            if owner not in filters.owners
        )

    def _inherited(self, filters: Filters) -> tuple[Filters, ...]:
        """The further scopes of a search in a fork: what was said and done, and the archive as it was.

        Its blocks are copies, so those that they were made of are not searched.
        """
        facts = tuple(kind for kind in filters.kinds if kind in _ARCHIVE)
        others = tuple(kind for kind in filters.kinds if kind not in _ARCHIVE and kind != "block")
        found: list[Filters] = []
        owners, until_ms, fork = filters.owners, filters.until_ms, self._fork
        while fork is not None:
            owners, until_ms = tuple(map(owner_outside, owners)), min(until_ms, fork.forked_ms)
            found.append(replace(filters, owners=owners, kinds=facts, until_ms=until_ms))
            fork = fork.within
        return (*found, replace(filters, owners=owners, kinds=others)) if found else ()

    def _filters(self, narrowing: MemoryFilter) -> Filters:
        owners = tuple(owner for scope, owner in self._owners if narrowing.scope in {"", scope.value})
        kinds: tuple[EntryKind, ...] = CURRENT_KINDS
        if narrowing.kinds:
            kinds = tuple(kind for kind in ALL_KINDS if kind in narrowing.kinds)
        usual = Filters(owners)
        return Filters(
            owners,
            kinds,
            session=narrowing.session,
            exclude_session="" if narrowing.session == self._session_id else self._session_id,
            since_ms=usual.since_ms if narrowing.since_ms is None else narrowing.since_ms,
            until_ms=usual.until_ms if narrowing.until_ms is None else narrowing.until_ms,
        )


def _of_this_machine(tx: Transaction, found: tuple[SearchResult, ...], *, now_ms: int) -> tuple[SearchResult, ...]:
    """The results without notes about another machine, and without what ran here for a while that is over."""
    entries = [one.source for one in found if one.kind == "archival"]
    if not entries:
        return found
    # Late, as in `stale_note`.
    from pattern_acp.memory.archive import notes_elsewhere

    elsewhere = notes_elsewhere(tx, entries, now_ms=now_ms)
    return tuple(one for one in found if one.source not in elsewhere) if elsewhere else found


def without_repeats(hits: Iterable[MemoryHit]) -> list[MemoryHit]:
    """The newest of all that say the same, instead of the best of them; entries with ids of their own stay."""
    alike: dict[tuple[str, str], list[MemoryHit]] = {}
    for hit in hits:
        # Who said it counts, and not in which session.
        alike.setdefault((_SESSION.sub("", hit.source), hit.text), []).append(hit)
    return [replace(max(same, key=lambda hit: hit.at_ms), others=len(same) - 1) for same in alike.values()]


def repeats(hit: MemoryHit) -> str:
    """Say how many older hits a hit represents, in words behind its place; empty for none."""
    return f" and {plural(hit.others, 'time')} before" if hit.others else ""


def stale_note(tx: Transaction, found: SearchResult, *, now_ms: int) -> str:
    """Describe what a hit's text omits: that it was not checked for long, what a trap is, what superseded it."""
    if found.kind == "block":
        return (
            "\n(not checked for long, so find out whether it still holds)"
            if stale_lines(found.text, now_ms=now_ms)
            else ""
        )
    if found.kind == "superseded":
        return _replaced_note(tx, found.source)
    if found.kind != "archival":
        return ""
    from pattern_acp.memory.archive import bound_of, head_of, load_entry

    entry = load_entry(tx, found.source)
    bound = bound_of(tx, [entry.id]).get(entry.id)
    what = f"\n({head_of(bound)}; {bound.status(now_ms)})" if bound is not None else ""
    if not is_stale(entry.verified_ms, now_ms=now_ms):
        return what
    how = f"; offer the user to run `{entry.check_command}`, which tells" if entry.check_command else ""
    return f"{what}\n(not checked for long, so find out whether it still holds{how})"


def _replaced_note(tx: Transaction, entry_id: str) -> str:
    """Name the replacement of a superseded entry: the last of those that superseded it, or each other."""
    from pattern_acp.memory.archive import load_entry

    last = load_entry(tx, entry_id)
    while last.superseded_by:
        last = load_entry(tx, last.superseded_by)
    if last.id == entry_id:
        return ""
    text = " ".join(last.text.split())
    return f"\n(superseded by archival entry {last.id}: “{text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'}”)"


def _hit(tx: Transaction, found: SearchResult, *, now_ms: int, knows_meaning: bool) -> MemoryHit:
    why = found.why
    source, place = _source(tx, found)
    return MemoryHit(
        source,
        found.text + stale_note(tx, found, now_ms=now_ms),
        found.at_ms,
        found.score,
        why.sentence,
        why.words,
        why.meaning if knows_meaning else None,
        place,
        found.entry,
    )


def _source(tx: Transaction, found: SearchResult) -> tuple[str, str]:
    """Return its origin: for the model, which can ask for a session by its id, and for the user."""
    match found.kind:
        case "block":
            return f"memory block {found.label}", ""
        case "archival":
            return f"archival entry {found.source}", "archived fact"
        case "superseded":
            return f"superseded archival entry {found.source}", "superseded archived fact"
        case "skill":
            return f"skill {found.item}", f"skill {found.item}"
        case "task":
            number, _, state = found.item.partition(".")
            status = state.replace("_", " ")
            if found.source.startswith(TASK_ID):
                return f"task #{number} ({status})", f"task #{number} ({status})"
            title = _title(tx, found)
            return f"plan step ({status}) of session {found.source}", f"plan step ({status}) of {title}"
        case kind:
            speaker = "the user" if kind == "user" else "the agent"
            title = _title(tx, found)
            return f"{speaker} in session {found.source}", f"{'you' if kind == 'user' else speaker} in {title}"


def _title(tx: Transaction, found: SearchResult) -> str:
    session = get_session(tx, SessionId(found.source))
    return f"“{session.title}”" if session is not None and session.title else "an earlier session"


SCOPES = tuple(scope.value for scope in Scope)
"""Whose memory is searched."""


def narrowing_of(kinds: tuple[str, ...], scope: str = "", since: str = "", until: str = "") -> MemoryFilter:
    """The limits; what is empty limits nothing. Both days are in, and in the time zone of this machine.

    Raises:
        ValueError: one is no day.
    """
    return MemoryFilter(
        scope=scope,
        kinds=kinds,
        since_ms=day_bounds(since)[0] if since else None,
        until_ms=day_bounds(until)[1] if until else None,
    )


def day_bounds(day: str) -> tuple[int, int]:
    """Return the first and the last millisecond of a day such as 2026-11-28 here, counted from 1970-01-01 UTC.

    Raises:
        ValueError: it is no day.
    """
    return local_bounds(date.fromisoformat(day))
