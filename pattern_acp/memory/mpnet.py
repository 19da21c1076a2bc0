"""The embedder all-mpnet-base-v2: stronger than MiniLM and four times its size.

Owns: having the parts (`mpnet_parts`) converted once (`mpnet_conversion`), how far that is, and its texts. Must not
know: SQL, other embedders, how a model is converted. Until the model is there, every text fails with a sentence.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from hashlib import file_digest
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.memory.embeddings import EmbedderError, EmbeddingModel, TextUse, Vector
from pattern_acp.memory.local_embedders import OnnxEmbedder, piece_numbers
from pattern_acp.memory.mpnet_parts import RELEASE, Conversion, Release, find_parts, how_to_obtain

MPNET = EmbeddingModel("all-mpnet-base-v2-int8-1", 768, floor=0.2, trust=1.0, weak=0.28)

MOST_PIECES = 384
"""Length that the model was made for; the rest of a longer text is ignored."""

_SHIFT = 4
"""Its vocabulary is BERT's behind four marks; of these a text has its own start and end."""
_START, _END = 0, 2


class ModelStage(StrEnum):
    """Progress of the model towards being used."""

    READY = "ready"
    BEING_PREPARED = "being prepared"
    FAILED = "failed"
    NOT_PREPARED = "not prepared"
    """Its parts are there; the next session converts them."""
    ABSENT = "absent"


class Preparation(Struct, frozen=True):
    """State of the model, as `doctor` tells it."""

    stage: ModelStage
    detail: str = ""
    """A sentence, except for a model that is ready."""


class Mpnet:
    """`Embedder` by all-mpnet-base-v2, with the converted model in a folder of ours."""

    model = MPNET
    is_immediate = False

    def __init__(self, folder: Path, release: Release = RELEASE) -> None:
        self._folder = folder
        self._release = release
        self._file = folder / release.file
        self._problem = ""
        self._texts = OnnxEmbedder("mpnet", self._checked, mpnet_inputs, how_to_obtain(folder, release))

    async def prepare(self) -> None:
        """See `Embedder.prepare`. Converts the model where that was not done, which takes some seconds."""
        if not await anyio.to_thread.run_sync(self._file.is_file):
            self._problem = await _convert(self._folder, self._release)
            await anyio.to_thread.run_sync(_note_problem, self._folder, self._release, self._problem)
        await self.embed(("",), TextUse.QUERY)

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        del use
        return await self._texts.embed(texts)

    def _checked(self) -> str:
        if not self._file.is_file():
            raise EmbedderError(
                self._problem or "The embedder mpnet is being prepared, which takes some seconds the first time."
            )
        with self._file.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        if digest != self._release.sha256:
            raise EmbedderError(f"The file {self._file} was changed; delete it, and it is made again.")
        return str(self._file)


def mpnet_inputs(text: str) -> dict[str, list[int]]:
    """The inputs of the model for a text."""
    numbers = piece_numbers(text, MOST_PIECES)[1:-1]
    return {"input_ids": [_START, *(number + _SHIFT for number in numbers), _END]}


def can_be_used(folder: Path, release: Release = RELEASE) -> bool:
    """True when the converted model is in the folder, or all of its parts are on this machine."""
    return (folder / release.file).is_file() or find_parts(folder, release) is not None


def preparation(folder: Path, release: Release = RELEASE) -> Preparation:
    """The state of the model, for any process."""
    if (folder / release.file).is_file():
        return Preparation(ModelStage.READY)
    if _is_locked(_lock(folder, release)):
        return Preparation(ModelStage.BEING_PREPARED, "The model is being prepared; search goes by words until then.")
    if find_parts(folder, release) is None:
        remedy = how_to_obtain(folder, release)
        return Preparation(ModelStage.ABSENT, f"The model of the embedder mpnet is not here; {remedy}.")
    try:
        problem = _problem_file(folder, release).read_text(encoding="utf-8")
    except OSError:
        return Preparation(
            ModelStage.NOT_PREPARED, "The next session prepares the model; search goes by words until then."
        )
    return Preparation(ModelStage.FAILED, problem)


async def _convert(folder: Path, release: Release) -> str:
    """Have the model converted, and say why that was not possible; empty when it is there."""
    # Late: most installations have no model to convert.
    import anyio.to_process
    from anyio import BrokenWorkerProcess

    parts = await anyio.to_thread.run_sync(find_parts, folder, release)
    remedy = how_to_obtain(folder, release)
    if parts is None:
        return f"The model of the embedder mpnet is not here; {remedy}."
    work = Conversion(folder / release.file, release.sha256, _lock(folder, release), parts, release.member, remedy)
    try:
        await anyio.to_thread.run_sync(partial(folder.mkdir, parents=True, exist_ok=True))
        # A limiter of its own: others that wait for a process are not to wait for this.
        return await anyio.to_process.run_sync(_convert_here, work, cancellable=True, limiter=anyio.CapacityLimiter(1))
    except BrokenWorkerProcess:
        return "The process that prepares the model of the embedder mpnet was ended; the next session tries again."
    except OSError as error:
        return f"The folder {folder} cannot be used for the model of the embedder mpnet ({error.strerror})."


def _convert_here(work: Conversion) -> str:
    try:
        from pattern_acp.memory.mpnet_conversion import convert
    except ImportError:
        return 'The embedder mpnet needs numpy; install it with: pip install "pattern-acp[semantic-large]".'
    return convert(work)


def _note_problem(folder: Path, release: Release, problem: str) -> None:
    """Leave the reason to `preparation` in other processes; where that fails, they only know less."""
    file = _problem_file(folder, release)
    try:
        if problem:
            file.write_text(problem, encoding="utf-8")
        else:
            file.unlink(missing_ok=True)
    except OSError:
        return


def _lock(folder: Path, release: Release) -> Path:
    return folder / f"{release.file}.lock"


def _problem_file(folder: Path, release: Release) -> Path:
    return folder / f"{release.file}.problem"


def _is_locked(lock: Path) -> bool:
    if not lock.exists():
        return False
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, blocking=False, mode=0o600):
            return False
    except (Timeout, OSError):
        return True
