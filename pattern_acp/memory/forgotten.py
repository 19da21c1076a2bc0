"""Recognising words that are to be forgotten, also where a copy of them was cut, escaped or broken into lines.

Owns: what counts as a copy, and what is in its place. Must not know: where texts are stored.

A copy is the words as a whole, or a run of at least `_SEED` of their characters that is half of them, or that stands
where a text was cut. Tools show lines with numbers or marks in front, so a longer line is a source of its own.

Finding, masking and checking all ask `Forgotten.spans`, so that what one of them calls a copy the others do too. Texts
are compared as they are *folded*: without case, with any white space as one blank, straight quotes and hyphens, without
invisible characters, letters taken apart as Unicode's NFKD does. What JSON escapes is folded to what it stands for, at
any depth. A backslash and a letter may be such an escape or part of a path, so a text that has one is folded both ways.
"""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

from msgspec import Struct

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.structural_keys import TextRole, walk

MARK = "[forgotten]"
"""The mark instead of forgotten words."""

REDACTED = "[redacted]"
"""Replacement for every text of an event that was redacted as a whole."""

MARKS = (MARK, REDACTED)
"""Both; `lost_words` looks for them."""

_SEED = 16
"""Characters that make a part of longer words recognisable: few ordinary phrases share that many by chance."""

_STRIDE = 8
"""Distance of seeds, so that every copy of 23 characters or more holds a whole one."""

_SHORTEST_LINE = 8
"""Characters of a line of the words that is looked for on its own: shorter ones are in texts of all kinds."""

_SHORTEST_CUT = 8
"""Characters at the end of a text that was cut (`…`) which count as the beginning of the words."""

_CUT = "…"

_JSON_TEXTS = frozenset({"arguments", "definition", "schema"})
"""Keys of payloads whose texts are JSON: what a model gave a tool, and what tools say of themselves."""

_FLOAT = "$float"
"""The only key of a stored number with a fraction (journal/codec.py)."""

_PATHS = frozenset({"path", "cwd"})
"""Keys of payloads whose texts are paths."""


class Forgotten(Struct, frozen=True):
    """The words to forget, as the sources that copies are recognised by."""

    sources: tuple[str, ...]
    """Folded, longest first."""
    seeds: tuple[str, ...]
    """Parts of the sources; a copy holds at least one."""
    folders: tuple[str, ...] = ()
    """Folders of sessions, which stay recorded: below them a path loses the words, and not in front."""
    parameters: frozenset[str] = frozenset()
    """Keys that tools of ours have, which stay in what a model gave them: they are nobody's words."""

    def is_in(self, text: str) -> bool:
        """True when `text`, which may be JSON, may hold a copy; where this says no, `spans` finds none."""
        return any(seed in folded for folded in _foldings(text) for seed in self.seeds)

    def holds(self, text: str) -> bool:
        """True when `text` holds a copy."""
        return bool(self.spans(text))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Starts and ends of copies in `text`, in order, none touching another. A mark is no copy of anything."""
        found: list[tuple[int, int]] = []
        for escapes, folded in enumerate(_foldings(text)):
            cut = text.endswith(_CUT)
            if cut or any(seed in folded for seed in self.seeds):
                places = _Folded.of(text, escapes=bool(escapes))
                found += (span for source in self.sources for span in _copies(source, text, places))
                found += _cut_end(self.sources, places) if cut else ()
        marks = [(one.start(), one.end()) for one in _MARKED.finditer(text)] if found else []
        return _joined(
            (start, end) for start, end in found if not any(left <= start and end <= right for left, right in marks)
        )

    def is_whole(self, copy: str) -> bool:
        """True for a copy of a source from end to end."""
        return any(folded.strip() in self.sources for folded in _foldings(copy))

    def mask(self, text: str) -> str:
        """`text` with `MARK` instead of every copy."""
        pieces: list[str] = []
        done = 0
        for start, end in self.spans(text):
            pieces += (text[done:start], MARK)
            done = end
        return "".join((*pieces, text[done:]))

    def mask_json(self, kind: str, payload: JsonObject) -> JsonObject:
        """The payload of an event of a kind with every copy masked, but not in what only names or classifies things."""
        return walk(kind, payload, self._mask_leaf)

    def _mask_leaf(self, role: TextRole, key: str, value: Json) -> Json:
        if role is TextRole.ARGUMENTS:
            return self._mask_all(value)
        if role is not TextRole.WORDS or not isinstance(value, str):
            return value
        if key in _JSON_TEXTS:
            return self._mask_json_text(value)
        return self._mask_path(value) if key in _PATHS else self.mask(value)

    def _mask_path(self, path: str) -> str:
        """A path with every copy masked, but not in the folder of a session that holds the words on its own."""
        fitting = [
            folder for folder in self.folders if path == folder or path.startswith((f"{folder}/", f"{folder}\\"))
        ]
        folder = max(fitting, key=len, default="")
        if self.mask(folder) == folder:
            return self.mask(path)
        return folder + self.mask(path.removeprefix(folder))

    def _mask_json_text(self, text: str) -> str:
        """A text that is JSON as what it says is masked elsewhere; any other text as a text."""
        try:
            value = cast("Json", json.loads(text, object_pairs_hook=_each_once))
        except (ValueError, RecursionError):
            return self.mask(text)
        masked = self._mask_all(value)
        return text if masked == value else json.dumps(masked, ensure_ascii=False)

    def _mask_all(self, value: Json) -> Json:
        """A value with every copy masked in its texts, numbers and keys, but for keys that tools of ours have."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            if set(value) == {_FLOAT}:
                return self._mask_number(value, str(value[_FLOAT]))
            return {
                key if key in self.parameters else self.mask(key): self._mask_all(item) for key, item in value.items()
            }
        if isinstance(value, Sequence):
            return [self._mask_all(item) for item in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._mask_number(value, str(value)) if is_number else value

    def _mask_number(self, value: Json, digits: str) -> Json:
        masked = self.mask(digits)
        return value if masked == digits else masked


def lost_words(text: str) -> bool:
    """True when words seem to have been taken out of a text."""
    return any(mark in text for mark in MARKS)


def reads_like(masked: str, text: str) -> bool:
    """True when `text` can be what `masked` was before words were taken out of it."""
    pattern = ".*".join(re.escape(part) for part in _MARKED.split(masked))
    return masked == text or re.fullmatch(pattern, text, re.DOTALL) is not None


def unquoted(passage: str) -> str:
    """A passage without the white space and the pair of quotes around it, as one types them in a shell."""
    bare = passage.strip()
    inner, ends = bare[1:-1], {_fold(bare[:1]), _fold(bare[-1:])}
    if inner.strip() and ends in ({'"'}, {"'"}, {"`"}) and not ends & set(_fold(inner)):
        return inner.strip()
    return bare


def folded_length(passage: str) -> int:
    """Number of characters of a passage that count in the search for copies."""
    return len(_fold(passage).strip())


def forget_passage(passage: str) -> Forgotten:
    """Patterns that recognise a passage, and each of its longer lines; quotes around it are not part of it."""
    bare = unquoted(passage)
    return _forgotten([bare, *(line for line in bare.split("\n") if folded_length(line) >= _SHORTEST_LINE)])


def forget_lines(texts: Iterable[str], *, shortest: int) -> Forgotten:
    """Patterns that recognise the lines of texts that have at least `shortest` characters."""
    return _forgotten(line for text in texts for line in text.split("\n") if folded_length(line) >= shortest)


def _forgotten(passages: Iterable[str]) -> Forgotten:
    # Longest first, so that a whole passage is found before its lines.
    sources = {folded.strip() for passage in passages for folded in _foldings(passage)} - {""}
    return of_sources(tuple(sorted(sources, key=lambda source: (-len(source), source))))


def of_sources(sources: tuple[str, ...]) -> Forgotten:
    """Patterns of the sources that another one had."""
    return Forgotten(
        sources, tuple({source[at : at + _SEED]: None for source in sources for at in _seed_places(source)})
    )


def _each_once(pairs: list[tuple[str, Json]]) -> JsonObject:
    """An object of these pairs; of a key that comes twice nobody sees the first value, which may hold the words."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("A key comes twice.")
    return dict(pairs)


def _seed_places(source: str) -> list[int]:
    """Starts of seeds: all along the source, and one that ends with it, for copies whose beginning was cut off."""
    last = max(0, len(source) - _SEED)
    return sorted({*range(0, last + 1, _STRIDE), last})


def _copies(source: str, text: str, places: "_Folded") -> Iterator[tuple[int, int]]:
    folded = places.text
    for at in _seed_places(source):
        seed = source[at : at + _SEED]
        place = folded.find(seed)
        while place >= 0:
            start, end = _extend(source, at, folded, place, len(seed))
            span = places.span(start, end)
            if 2 * (end - start) >= len(source) or _is_cut(text, *span):
                yield span
            place = folded.find(seed, max(end, place + 1))


def _is_cut(text: str, start: int, end: int) -> bool:
    """True when a run stands where a text was cut: at one of its ends, or beside the sign for it."""
    return start == 0 or end == len(text) or text[start - 1] == _CUT or text[end] == _CUT


def _extend(source: str, at: int, text: str, place: int, length: int) -> tuple[int, int]:
    """The run of `text` around a seed that is the same as in `source`."""
    start, source_start = place, at
    while start > 0 and source_start > 0 and text[start - 1] == source[source_start - 1]:
        start, source_start = start - 1, source_start - 1
    end, source_end = place + length, at + length
    while end < len(text) and source_end < len(source) and text[end] == source[source_end]:
        end, source_end = end + 1, source_end + 1
    # A blank at an end of a run says nothing of the words.
    start += text[start] == " "
    return start, end - (end > start + 1 and text[end - 1] == " ")


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _cut_end(sources: Sequence[str], places: "_Folded") -> Iterator[tuple[int, int]]:
    """Titles and excerpts end with `…` where they were cut, maybe in the middle of the words."""
    body = places.text.removesuffix(_fold(_CUT)).rstrip()
    for source in sources:
        for length in range(min(len(source), len(body)), _SHORTEST_CUT - 1, -1):
            if body.endswith(source[:length]):
                yield places.span(len(body) - length, len(body))
                return


class _Folded(Struct, frozen=True):
    """A folded text that knows where each of its characters was.

    It is made of pieces, each from `folded_at` of the folded text on, and from `starts` to `ends` of the text. The
    characters of a piece that is `plain` are one to one those of the text, and any other piece is one thing.
    """

    text: str
    folded_at: list[int]
    starts: list[int]
    ends: list[int]
    plain: list[bool]

    @classmethod
    def of(cls, text: str, *, escapes: bool) -> "_Folded":
        folded: list[str] = []
        made = cls("", [], [], [], [])
        length, blank = 0, False
        for piece, start, end, plain in _pieces(text, escapes=escapes):
            doubled = blank and piece.startswith(" ")
            rest = piece[1:] if doubled else piece
            if rest:
                folded.append(rest)
                made.folded_at.append(length)
                made.starts.append(start + (doubled and plain))
                made.ends.append(end)
                made.plain.append(plain)
                length += len(rest)
                blank = rest.endswith(" ")
        return cls("".join(folded), made.folded_at, made.starts, made.ends, made.plain)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Place in the text of these characters of the folded one; `end` is behind the last."""
        first, last = bisect_right(self.folded_at, start) - 1, bisect_right(self.folded_at, end - 1) - 1
        begins = self.starts[first] + (start - self.folded_at[first] if self.plain[first] else 0)
        ends = self.starts[last] + end - self.folded_at[last] if self.plain[last] else self.ends[last]
        return begins, ends


def _foldings(text: str) -> tuple[str, ...]:
    """The text folded, and folded once more with escapes read as what they stand for when there may be some."""
    return (_fold(text), _fold(text, escapes=True)) if "\\" in text else (_fold(text),)


def _fold(text: str, *, escapes: bool = False) -> str:
    """Folded text as in `_Folded.of`, without the places and so faster."""
    if not text.isascii() or "\\" in text:
        text = (_ESCAPED if escapes else _SPECIAL).sub(lambda found: _folded(found[0]), text)
    return _BLANKS.sub(" ", text.lower())


def _pieces(text: str, *, escapes: bool) -> Iterator[tuple[str, int, int, bool]]:
    """The folded pieces of a text, where each begins and ends, and whether its characters are those of the text."""
    done = 0
    for found in (_ESCAPED if escapes else _SPECIAL).finditer(text):
        if found.start() > done:
            yield text[done : found.start()].lower(), done, found.start(), True
        done = found.start()
        for cluster in (found[0],) if found[0].isascii() else _clusters(found[0]):
            yield _folded(cluster), done, done + len(cluster), False
            done += len(cluster)
    if done < len(text):
        yield text[done:].lower(), done, len(text), True


@lru_cache(maxsize=4096)
def _folded(part: str) -> str:
    """One find of `_SPECIAL` or `_ESCAPED`, folded."""
    if part[0] != "\\":
        return _BLANKS.sub(" ", "".join(_folded_cluster(cluster) for cluster in _clusters(part)))
    sign = part.lstrip("\\")
    if sign[:1] in {"u", "U"}:
        units = (int(digits, 16) for digits in re.findall(r"[uU]([0-9a-fA-F]{4})", sign))
        decoded = b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass")
        return _BLANKS.sub(" ", "".join(_folded_cluster(cluster) for cluster in _clusters(decoded)))
    return " " if sign.lower() in _BLANK_ESCAPES else sign


def _folded_cluster(cluster: str) -> str:
    like = _INVISIBLE.sub("", cluster).translate(_LIKE)
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", like).casefold())
    return _INVISIBLE.sub("", apart.translate(_LIKE)).lower()


def _clusters(run: str) -> Iterator[str]:
    """Each character with the marks on it, which one may write in any order."""
    start = 0
    for at in range(1, len(run)):
        if not unicodedata.combining(run[at]) and not _INVISIBLE.match(run[at]):
            yield run[start:at]
            start = at
    yield run[start:]


_BLANKS = late_pattern(r"[\s\x08]+")

_BLANK_ESCAPES = frozenset("nrtbf")

_WIDE = r"[^\x00-\x7f]+|[\s\x08]{2,}|[\x08-\r\x1c-\x1f]"
"""Parts of a text that do not read like their folded form but for the case of letters."""

_SPECIAL = late_pattern(rf"{_WIDE}|\\+")

_ESCAPED = late_pattern(
    rf"""{_WIDE}|\\+(?:[uU][dD][89abAB][0-9a-fA-F]{{2}}\\+[uU][dD][c-fC-F][0-9a-fA-F]{{2}}|[uU][0-9a-fA-F]{{4}}|[nrtbfNRTBF"'/])?"""
)

_INVISIBLE = late_pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that Unicode does not display: soft hyphens, joiners, marks of direction, variants of a sign."""

_LIKE = str.maketrans(
    {
        **dict.fromkeys("\u00b4\u02b9\u02bb\u02bc\u02c8\u2018\u2019\u201a\u201b\u2032\u2039\u203a\uff07", "'"),
        **dict.fromkeys("\u00ab\u00bb\u02ba\u201c\u201d\u201e\u201f\u2033\u300c\u300d\u301d\u301e\uff02", '"'),
        "\u21b5": " ",
        **dict.fromkeys("\u02d7\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"),
    }
)
"""Quotes and hyphens that programs put instead of those that were typed, and the end of a line in our titles."""

_MARKED = late_pattern("|".join(re.escape(mark) for mark in MARKS))
