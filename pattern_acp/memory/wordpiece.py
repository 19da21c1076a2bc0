"""Texts as the numbers that BERT's descendants read.

Owns: BERT's uncased way of cutting texts: clean, fold, split at punctuation, then the longest known pieces from the
left (Devlin et al. 2018; its `tokenization.py` is the reference). Must not know: any model.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

VOCABULARY = Path(__file__).parent / "vocabulary" / "bert-base-uncased.txt"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

_UNKNOWN, _START, _END = "[UNK]", "[CLS]", "[SEP]"
_LONGEST_WORD = 100
"""Longer words are unknown, as in the reference."""

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


@cache
def load_vocabulary() -> Mapping[str, int]:
    """The number of every piece. Read once, at the first text: 30,522 lines take 20 ms.

    Raises:
        VocabularyError: the file was changed.
        OSError: it cannot be read.
    """
    data = VOCABULARY.read_bytes()
    if sha256(data).hexdigest() != VOCABULARY_SHA256:
        raise VocabularyError("The vocabulary of MiniLM was changed; install pattern-acp again.")
    return {piece: number for number, piece in enumerate(data.decode("utf-8").splitlines())}


def piece_numbers(text: str, most: int) -> list[int]:
    """The numbers of `text`, between those of its start and end, at most `most` in all.

    Raises:
        VocabularyError, OSError: see `load_vocabulary`.
    """
    vocabulary = load_vocabulary()
    numbers = [vocabulary[_START]]
    for word in words(text):
        numbers += _pieces(word, vocabulary)
        if len(numbers) >= most:
            break
    return [*numbers[: most - 1], vocabulary[_END]]


def words(text: str) -> Iterator[str]:
    """The words of `text` and its punctuation marks, lower case and without accents."""
    for run in _spaced(text).split():
        folded = "".join(
            character
            for character in unicodedata.normalize("NFD", run.lower())
            if unicodedata.category(character) != "Mn"
        )
        yield from _split_at_punctuation(folded)


def _spaced(text: str) -> str:
    spaced: list[str] = []
    for character in text:
        code = ord(character)
        if code in {0, 0xFFFD} or _is_control(character):
            continue
        if any(low <= code <= high for low, high in _IDEOGRAPHS):
            spaced.append(f" {character} ")
        else:
            spaced.append(" " if character.isspace() else character)
    return "".join(spaced)


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


def _pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    if len(word) > _LONGEST_WORD:
        return [vocabulary[_UNKNOWN]]
    numbers: list[int] = []
    start = 0
    while start < len(word):
        number, end = _longest_piece(word, start, vocabulary)
        if number is None:
            return [vocabulary[_UNKNOWN]]
        numbers.append(number)
        start = end
    return numbers


def _longest_piece(word: str, start: int, vocabulary: Mapping[str, int]) -> tuple[int | None, int]:
    mark = "##" if start else ""
    for end in range(len(word), start, -1):
        number = vocabulary.get(mark + word[start:end])
        if number is not None:
            return number, end
    return None, start
