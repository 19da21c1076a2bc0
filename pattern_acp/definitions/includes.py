"""Definitions inside definitions: what the key `include` of a head names.

Owns: finding the files, within their root, and the text that they add. Must not know: what includes them.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from pattern_acp.definitions.files import DefinitionFiles, files_below, is_inside, read_document, read_text
from pattern_acp.definitions.identity import DefinitionSource

MOST_INCLUDED = 50
"""Definitions that one may include, those of its includes with them."""

_MAIN = "SKILL.md"


def included_sources(
    entry: DefinitionSource, root: Path, boundary: Path, reading: DefinitionFiles
) -> tuple[DefinitionSource, ...]:
    """`entry`, and all that it includes: Markdown files and folders of skills, by their paths from `root`.

    Each is there once, no matter who includes it and how often; what cannot be read is reported and left out.
    """
    found = {entry.symbol: entry}
    waiting = list(entry.includes)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        if len(found) > MOST_INCLUDED:
            reading.problems.append(f"{root} has more than {MOST_INCLUDED} included files; the rest is left out.")
            break
        source = _read(name, root, boundary, reading)
        if source is not None:
            found[name] = source
            waiting += source.includes
    return tuple(found.values())


def bodies_of(closure: Sequence[DefinitionSource], entry: str) -> tuple[str, ...]:
    """The texts that included definitions add, each once, in the order in which they are named."""
    sources = {each.symbol: each for each in closure}
    order = [entry]
    # The list grows while it is gone through.
    for symbol in order:
        order += [name for name in sources[symbol].includes if name in sources and name not in order]
    return tuple(read_document(_main(sources[name]).decode("utf-8", "replace")).body for name in order[1:])


def is_whole(closure: Sequence[DefinitionSource], entry: str) -> bool:
    """False where the text of something that `entry` includes was not stored, or was forgotten."""
    names = {each.symbol: {_MAIN, PurePosixPath(each.symbol).name} for each in closure if each.symbol != entry}
    return all(names[each.symbol] & each.files.keys() for each in closure if each.symbol in names)


def _main(source: DefinitionSource) -> bytes:
    return source.files.get(_MAIN) or source.files.get(PurePosixPath(source.symbol).name) or b""


def _read(name: str, root: Path, boundary: Path, reading: DefinitionFiles) -> DefinitionSource | None:
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or str(plain) != name:
        reading.problems.append(f"{name} cannot be included: name a file by its path from {root}.")
        return None
    place = root / name
    if not is_inside(place, boundary):
        reading.problems.append(f"{place} is a link that leads out of {boundary}, so it is not included.")
        return None
    main = place / _MAIN if place.is_dir() else place
    text = read_text(main, reading)
    if text is None:
        return None
    files = {main.name: text.encode("utf-8")}
    if place.is_dir():
        for path in files_below(place, boundary, reading):
            files.setdefault(path.relative_to(place).as_posix(), _bytes(path))
    return DefinitionSource(name, files, read_document(text).items("include"))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
