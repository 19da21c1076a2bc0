"""Identity of definitions, one SHA-256 for all that a definition says, and the sources that are stored by it.

Owns: the form that is hashed, the table `definition_sources`, the form of a source in it, and that what is read from it
is what was stored. A definition is its canonical name inside its root, its files, and the identities of what it
includes; those that include each other are hashed as one. Text is hashed whatever its line ends and Unicode form,
everything else byte by byte. Neither the place on this machine, nor notes on it, nor what a parser makes of it counts.
Must not know: where definitions are found, or which session is defined by what. The form is fixed:
tests/definitions/golden has vectors. The caller appends the event that names an identity first, in the same
transaction.
"""

import base64
import binascii
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.canonical import Json, canonical_json, sha256_hex
from pattern_acp.domain.errors import PatternError

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


QUERIES = load_queries("pattern_acp.definitions")

MOST_KEPT = 2_000_000
"""Bytes of one definition that are stored; of files beyond, only the hash is."""


class SourceDamagedError(PatternError):
    """The stored source of a definition is gone, or not what was stored."""

    failure_code = "session.instructions-changed"


class _File(Struct, omit_defaults=True, rename={"data": "base64"}):
    text: str | None = None
    data: str | None = None
    hash: str | None = None


class _Definition(Struct, omit_defaults=True):
    files: dict[str, _File]
    includes: tuple[str, ...] = ()


class KeptSource(Struct, frozen=True):
    """A definition as it was stored: its files, and those of what it includes, by symbol."""

    identity: str
    symbol: str
    definitions: tuple[DefinitionSource, ...]

    @property
    def files(self) -> Mapping[str, bytes]:
        """The definition's own files; one that was too large to be stored is not among them."""
        nothing: Mapping[str, bytes] = {}
        return next((each.files for each in self.definitions if each.symbol == self.symbol), nothing)


class ListedSource(Struct, frozen=True):
    """A stored source without its text; `size` is in bytes, `note` what the user wrote on it."""

    identity: str
    symbol: str
    size: int
    note: str = ""


def encoded(closure: Iterable[DefinitionSource], hashes: Mapping[tuple[str, str], str] | None = None) -> str:
    """The form in which a definition is stored with all that it includes.

    `hashes` are those of files whose bytes were not read, by symbol and name.
    """
    left, definitions = MOST_KEPT, dict[str, _Definition]()
    for each in closure:
        files: dict[str, _File] = {}
        for name in sorted(each.files):
            content = each.files[name]
            left -= len(content)
            files[name] = _File(hash=file_hash(name, content)) if left < 0 else _file(content)
        missing = {name: digest for (symbol, name), digest in (hashes or {}).items() if symbol == each.symbol}
        files |= {name: _File(hash=digest) for name, digest in missing.items() if name not in files}
        definitions[each.symbol] = _Definition(files, each.includes)
    return msgspec.json.encode(definitions, order="deterministic").decode()


def _file(content: bytes) -> _File:
    try:
        return _File(text=content.decode("utf-8"))
    except UnicodeDecodeError:
        return _File(data=base64.b64encode(content).decode())


def decoded(identity: str, symbol: str, source: str) -> KeptSource:
    """A stored source, once its identity is found to be that under which it is stored.

    Raises:
        SourceDamagedError: it is not.
    """
    try:
        stored = msgspec.json.decode(source, type=dict[str, _Definition])
        definitions = [
            (
                DefinitionSource(
                    name,
                    {file: content for file, one in each.files.items() if (content := _content(one)) is not None},
                    each.includes,
                ),
                each,
            )
            for name, each in stored.items()
        ]
    except (msgspec.DecodeError, binascii.Error) as error:
        raise SourceDamagedError(_damaged(symbol, identity)) from error
    leaves = [
        Leaves(
            source.symbol,
            {
                name: file_hash(name, source.files[name]) if name in source.files else (one.hash or "")
                for name, one in each.files.items()
            },
            each.includes,
        )
        for source, each in definitions
    ]
    if identities(leaves).get(symbol) != identity:
        raise SourceDamagedError(_damaged(symbol, identity))
    return KeptSource(identity, symbol, tuple(source for source, _ in definitions))


def _content(one: _File) -> bytes | None:
    if one.text is not None:
        return one.text.encode("utf-8")
    return base64.b64decode(one.data, validate=True) if one.data is not None else None


def _damaged(symbol: str, identity: str) -> str:
    return (
        f"The stored source of {symbol} ({identity[:12]}) is not what was stored, so it is not used: "
        "`/definitions adopt` or `pattern-acp sessions adopt` takes today's, and a new session does, too."
    )


def missing_sources(tx: Transaction, wanted: Iterable[str]) -> frozenset[str]:
    """Those of some identities whose source is not stored yet."""
    missing = set(wanted)
    rows = tx.all(QUERIES["known_sources"], {"identities": msgspec.json.encode(sorted(missing)).decode()})
    return frozenset(missing.difference(text(row[0]) for row in rows))


def keep_source(tx: Transaction, identity: str, symbol: str, source: str, *, seq: int) -> None:
    """Keep the source of a definition, in the form of `encoded`; nothing happens when it is stored already."""
    tx.execute(QUERIES["store_source"], {"identity": identity, "symbol": symbol, "source": source, "last_seq": seq})


def read_sources(tx: Transaction, wanted: Sequence[str]) -> dict[str, KeptSource]:
    """The stored sources of some identities, each verified; those that are not stored are not among them.

    Raises:
        SourceDamagedError: one is not what was stored.
    """
    identities_json = msgspec.json.encode(sorted(set(wanted))).decode()
    rows = tx.all(QUERIES["read_sources"], {"identities": identities_json}) if wanted else []
    return {text(row[0]): decoded(text(row[0]), text(row[1]), text(row[2])) for row in rows}


def list_sources(tx: Transaction) -> tuple[ListedSource, ...]:
    """Every stored source, by name."""
    rows = tx.all(QUERIES["list_sources"])
    return tuple(ListedSource(text(row[0]), text(row[1]), integer(row[2]), text(row[3])) for row in rows)


def damaged_sources(tx: Transaction) -> tuple[tuple[str, str], ...]:
    """The names and identities of sources that are not what was stored."""
    damaged: list[tuple[str, str]] = []
    for row in tx.all(QUERIES["all_sources"]):
        try:
            decoded(text(row[0]), text(row[1]), text(row[2]))
        except SourceDamagedError:
            damaged.append((text(row[1]), text(row[0])))
    return tuple(damaged)


def drop_damaged_sources(tx: Transaction) -> None:
    """Delete sources that are not what was stored, so that they are stored again from files."""
    for _, identity in damaged_sources(tx):
        drop_source(tx, identity)


def sources_with(tx: Transaction, holds: Callable[[str], bool], *, only: Collection[str] | None = None) -> int:
    """Count the stored sources of which a file, or the user's note, holds some words; of `only` these identities."""
    return sum(1 for _ in _with(tx, holds, only))


def forget_in_sources(
    tx: Transaction,
    holds: Callable[[str], bool],
    mask: Callable[[str], str],
    *,
    seq: int,
    only: Collection[str] | None = None,
) -> int:
    """Let stored sources lose the files that hold some words; how many did. `seq` is the event that says so.

    Of such a file the hash stays, so that the rest of the source is still verified. A definition whose text is gone is
    not used any more: its sessions continue with today's, and say so.
    """
    count = 0
    for identity, note, stored in list(_with(tx, holds, only)):
        for each in stored.values():
            for name, one in each.files.items():
                if _holds(one, holds):
                    each.files[name] = _File(hash=file_hash(name, _content(one) or b""))
        source = msgspec.json.encode(stored, order="deterministic").decode()
        values = {"identity": identity, "source": source, "note": mask(note), "last_seq": seq}
        tx.execute(QUERIES["replace_source"], values)
        count += 1
    return count


def _with(
    tx: Transaction, holds: Callable[[str], bool], only: Collection[str] | None
) -> Iterator[tuple[str, str, dict[str, _Definition]]]:
    for row in tx.all(QUERIES["sources_and_notes"]):
        identity, note = text(row[0]), text(row[2])
        if only is not None and identity not in only:
            continue
        try:
            stored = msgspec.json.decode(text(row[1]), type=dict[str, _Definition])
        except msgspec.DecodeError:
            # Damaged, so that it is never used: what it says is looked at as one text.
            stored = {"damaged": _Definition({"damaged": _File(text=text(row[1]))})}
        if holds(note) or any(_holds(one, holds) for each in stored.values() for one in each.files.values()):
            yield identity, note, stored


def _holds(one: _File, holds: Callable[[str], bool]) -> bool:
    try:
        content = _content(one)
    except binascii.Error:
        return holds(one.data or "")
    return content is not None and holds(content.decode("utf-8", "replace"))


def note_source(tx: Transaction, identity: str, note: str, *, seq: int) -> None:
    """Put the user's note on a stored source instead of an earlier one; it is no part of the identity."""
    tx.execute(QUERIES["note_source"], {"identity": identity, "note": note, "last_seq": seq})


def drop_source(tx: Transaction, identity: str) -> None:
    """Delete a stored source, once nothing is defined by it any more."""
    tx.execute(QUERIES["drop_source"], {"identity": identity})
