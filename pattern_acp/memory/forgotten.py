"""Recognising words that are to be forgotten, also where a copy of them was cut, escaped or broken into lines.

Owns: what counts as a copy, and what stands in its place. Must not know: where texts are stored.

A copy is the words as a whole, or a run of at least `_SEED` of their characters that is half of them, or that stands
where a text was cut. Tools show lines with numbers or marks in front, so a longer line is a source of its own.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.naming_keys import GIVEN, is_kind

MARK = "[forgotten]"
"""What stands where the words were."""

REDACTED = "[redacted]"
"""What stands in the place of every text of an event that was redacted as a whole."""

MARKS = (MARK, REDACTED)
"""Both; `lost_words` looks for them."""

_SEED = 16
"""Characters that make a part of longer words recognisable: few ordinary phrases share that many by chance."""

_STRIDE = 8
"""Distance of seeds, so that every copy of 23 characters or more holds a whole one."""

_SHORTEST_LINE = 8
"""Characters of a line of the words that is looked for by itself: shorter ones are in texts of all kinds."""

_SHORTEST_CUT = 8
"""Characters at the end of a text that was cut (`…`) which count as the beginning of the words."""

_CUT = "…"

_JSON_TEXTS = frozenset({"arguments", "definition", "schema"})
"""Keys of payloads whose texts are JSON: what a model gave a tool, and what tools say of themselves."""

_FLOAT = "$float"
"""The only key of a stored number with a fraction (journal/values.py)."""

_NAMES = frozenset(
    {
        "additional_directories",
        "cwd",
        "digest",
        "frontiers_after",
        "frontiers_before",
        "identity",
        "label",
        "name",
        "owner",
        "persona",
        "persona_identity",
        "root",
        "server",
        "signature",
        "with_owner",
    }
)
"""Keys of payloads whose values name: masking them would break what points to them, and they hold no words of a
person. What says of which kind something is stays as well."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The words to forget, as the sources that copies are recognised by."""

    sources: tuple[str, ...]
    seeds: tuple[str, ...]
    """Parts of the sources as they read inside payloads; a copy holds at least one."""
    folders: tuple[str, ...] = ()
    """Folders of sessions, which stay recorded: below them a path loses the words, and not in front."""
    parameters: frozenset[str] = frozenset()
    """Keys that tools of ours have, which stay in what a model gave them: they are nobody's words."""

    def is_in(self, text: str) -> bool:
        """Whether `text`, which may be JSON, holds a copy."""
        return any(seed in text for seed in self.seeds)

    def mask(self, text: str) -> str:
        """`text` with `MARK` in the place of every copy."""
        spans = _joined(span for source in self.sources for form in _forms(source) for span in _copies(form, text))
        pieces: list[str] = []
        done = 0
        for start, end in spans:
            pieces += (text[done:start], MARK)
            done = end
        return _mask_cut_end("".join((*pieces, text[done:])), self.sources)

    def mask_json(self, value: JsonObject) -> JsonObject:
        """A JSON object with every copy masked in its texts, but not in what only names or classifies things."""
        return {
            key: self._mask_all(item)
            if key == GIVEN
            else item
            if _names(key) or is_kind(key, item, value)
            else self._mask_named(key, item)
            for key, item in value.items()
        }

    def _mask_named(self, key: str, value: Json) -> Json:
        if isinstance(value, str) and key in _JSON_TEXTS:
            return self._mask_json_text(value)
        return self._mask_path(value) if isinstance(value, str) and key == "path" else self._mask_value(value)

    def _mask_path(self, path: str) -> str:
        """A path with every copy masked, but not in the folder of a session that holds the words by itself."""
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
            return {self._mask_key(key): self._mask_all(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self._mask_all(item) for item in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._mask_number(value, str(value)) if is_number else value

    def _mask_key(self, key: str) -> str:
        return key if key in self.parameters else self.mask(key)

    def _mask_number(self, value: Json, digits: str) -> Json:
        masked = self.mask(digits)
        return value if masked == digits else masked

    def _mask_value(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return self.mask_json(value)
        if isinstance(value, Sequence):
            return [self._mask_value(item) for item in value]
        return value


def lost_words(text: str) -> bool:
    """Whether words seem to have been taken out of a text."""
    return any(mark in text for mark in MARKS)


def forget_passage(passage: str) -> Forgotten:
    """What recognises a passage, and each of its longer lines."""
    lines = [line.strip() for line in passage.split("\n")]
    return _forgotten([passage.strip(), *(line for line in lines if len(line) >= _SHORTEST_LINE)])


def forget_lines(texts: Iterable[str], *, shortest: int) -> Forgotten:
    """What recognises the lines of texts that have at least `shortest` characters."""
    lines = (line.strip() for text in texts for line in text.split("\n"))
    return _forgotten(line for line in lines if len(line) >= shortest)


def _forgotten(sources: Iterable[str]) -> Forgotten:
    # Longest first, so that a whole passage is found before its lines.
    ordered = tuple(sorted({source for source in sources if source}, key=lambda source: (-len(source), source)))
    return Forgotten(ordered, tuple({seed: None for source in ordered for seed in _seeds_as_stored(source)}))


def _each_once(pairs: list[tuple[str, Json]]) -> JsonObject:
    """An object of these pairs; of a key that comes twice nobody sees the first value, which may hold the words."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("A key comes twice.")
    return dict(pairs)


def _names(key: str) -> bool:
    return key in _NAMES or key.endswith("_hash")


def _forms(source: str) -> set[str]:
    """The source as it is, and as it reads inside JSON text: tool calls keep the model's arguments as it wrote them."""
    return {source, json.dumps(source)[1:-1], json.dumps(source, ensure_ascii=False)[1:-1]}


def _seeds_as_stored(source: str) -> set[str]:
    """The seeds as they read inside a payload: escaped once as JSON, and once more within a text that is JSON."""
    seeds = {seed for form in _forms(source) for seed in _seeds(form)}
    return {json.dumps(seed, ensure_ascii=False)[1:-1] for seed in seeds}


def _seeds(source: str) -> Iterable[str]:
    return (source[at : at + _SEED] for at in _seed_places(source))


def _seed_places(source: str) -> list[int]:
    """Where seeds begin: all along the source, and one that ends with it, for copies whose beginning was cut off."""
    last = max(0, len(source) - _SEED)
    return sorted({*range(0, last + 1, _STRIDE), last})


def _copies(source: str, text: str) -> Iterable[tuple[int, int]]:
    for at in _seed_places(source):
        seed = source[at : at + _SEED]
        place = text.find(seed)
        while place >= 0:
            start, end = _extend(source, at, text, place, len(seed))
            if 2 * (end - start) >= len(source) or _is_cut(text, start, end):
                yield start, end
            place = text.find(seed, max(end, place + 1))


def _is_cut(text: str, start: int, end: int) -> bool:
    """Whether a run stands where a text was cut: at one of its ends, or beside the sign for it."""
    return start == 0 or end == len(text) or text[start - 1] == _CUT or text[end] == _CUT


def _extend(source: str, at: int, text: str, place: int, length: int) -> tuple[int, int]:
    """The run of `text` around a seed that is the same as in `source`."""
    start, source_start = place, at
    while start > 0 and source_start > 0 and text[start - 1] == source[source_start - 1]:
        start, source_start = start - 1, source_start - 1
    end, source_end = place + length, at + length
    while end < len(text) and source_end < len(source) and text[end] == source[source_end]:
        end, source_end = end + 1, source_end + 1
    return start, end


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _mask_cut_end(text: str, sources: Sequence[str]) -> str:
    """Titles and excerpts end with `…` where they were cut, maybe in the middle of the words."""
    if not text.endswith(_CUT):
        return text
    body = text.removesuffix(_CUT).rstrip()
    for source in sources:
        for length in range(min(len(source), len(body)), _SHORTEST_CUT - 1, -1):
            if body.endswith(source[:length]):
                return body[:-length] + MARK + _CUT
    return text
