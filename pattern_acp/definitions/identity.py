"""Identity of definitions: one SHA-256 for all that a definition says.

Owns: the form that is hashed. A definition is its canonical name inside its root, its files, and the identities of what
it includes; those that include each other are hashed as one. Text is hashed whatever its line ends and Unicode form,
everything else byte by byte. Neither the place on this machine, nor notes on it, nor what a parser makes of it counts.
Must not know: where definitions are found or stored. The form is fixed: tests/definitions/golden has vectors.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from pattern_acp.domain.canonical import Json, canonical_json, sha256_hex

TEXT_SUFFIXES = (".md", ".markdown", ".txt")
"""Names of text; a script with other line ends may do something else, so that it is hashed as it is."""

_BYTE_ORDER_MARK = "\ufeff"


class DefinitionSource(Struct, frozen=True):
    """A definition: its canonical name, such as `skill/pdf`, its files by their names in it, and what it includes."""

    symbol: str
    files: Mapping[str, bytes]
    includes: tuple[str, ...] = ()
    """Symbols, in any order; one that is not there counts by its name."""


class Leaves(Struct, frozen=True):
    """A definition as it is hashed: the hash of each file, by its name, instead of the files."""

    symbol: str
    files: Mapping[str, str]
    includes: tuple[str, ...] = ()


def normalised(text: str) -> str:
    """Text with the line ends of Unix, composed characters, and without a byte order mark."""
    unix = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")
    return unix if unix.isascii() else unicodedata.normalize("NFC", unix)


def file_hash(name: str, content: bytes) -> str:
    """The hash of one file; text in another encoding than UTF-8 is data."""
    if not name.casefold().endswith(TEXT_SUFFIXES):
        return f"data:{sha256_hex(content)}"
    try:
        text = content.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return f"data:{sha256_hex(content)}"
    return f"text:{sha256_hex(normalised(text).encode('utf-8', 'surrogatepass'))}"


def leaves_of(source: DefinitionSource) -> Leaves:
    """The hashes of a definition's files."""
    return Leaves(
        source.symbol, {name: file_hash(name, content) for name, content in source.files.items()}, source.includes
    )


def identity_of(source: DefinitionSource) -> str:
    """The identity of a definition that includes nothing which is there."""
    return identities((leaves_of(source),))[source.symbol]


def identities(definitions: Sequence[Leaves]) -> dict[str, str]:
    """The identity of each definition, by its symbol; others beside those that one includes change nothing of it."""
    by_symbol = {each.symbol: each for each in definitions}
    found: dict[str, str] = {}
    if len(definitions) == 1 and definitions[0].symbol not in definitions[0].includes:
        # Nearly always, and 200 skills are hashed at a start.
        (alone,) = definitions
        return {alone.symbol: _hash("definition", *_own(alone, found))}
    for unit in _units(by_symbol):
        (first, *others) = unit
        if not others and first not in by_symbol[first].includes:
            found[first] = _hash("definition", *_own(by_symbol[first], found))
            continue
        # Of a circle no member can be hashed before the others, so that all of them are one.
        circle = _hash("circle", *(_own(by_symbol[symbol], found) for symbol in unit))
        found |= {symbol: _hash("member", symbol, circle) for symbol in unit}
    return found


def _own(leaves: Leaves, found: Mapping[str, str]) -> list[Json]:
    files = sorted((_name(name), digest) for name, digest in leaves.files.items())
    includes = sorted((_name(symbol), found.get(symbol, "")) for symbol in set(leaves.includes))
    return [_name(leaves.symbol), [list(each) for each in files], [list(each) for each in includes]]


def _name(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _hash(kind: str, *parts: Json) -> str:
    return sha256_hex(canonical_json([kind, *parts]))


def _units(by_symbol: Mapping[str, Leaves]) -> Iterator[tuple[str, ...]]:
    """Yield the symbols, those that include each other together, each behind all that it includes (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_symbols: list[str] = []
    for root in sorted(by_symbol):
        if root in numbers:
            continue
        # A stack of our own: includes may be nested deeper than Python calls may be.
        work: list[tuple[str, list[str]]] = [(root, _includes(by_symbol, root))]
        numbers[root] = lowest[root] = len(numbers)
        open_symbols.append(root)
        while work:
            symbol, waiting = work[-1]
            if waiting:
                other = waiting.pop()
                if other not in numbers:
                    numbers[other] = lowest[other] = len(numbers)
                    open_symbols.append(other)
                    work.append((other, _includes(by_symbol, other)))
                elif other in open_symbols:
                    lowest[symbol] = min(lowest[symbol], numbers[other])
                continue
            work.pop()
            if work:
                lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[symbol])
            if lowest[symbol] == numbers[symbol]:
                place = open_symbols.index(symbol)
                yield tuple(sorted(open_symbols[place:]))
                del open_symbols[place:]


def _includes(by_symbol: Mapping[str, Leaves], symbol: str) -> list[str]:
    return sorted({each for each in by_symbol[symbol].includes if each in by_symbol})
