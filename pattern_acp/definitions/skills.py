"""Skills: folders with a SKILL.md, in the open format of agentskills.io.

Owns: finding them, their name and description, and the files beside. Must not know: when one is loaded.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pattern_acp.definitions.files import FILE_BYTES, DefinitionFiles, files_below, read_document, read_text
from pattern_acp.domain.canonical import canonical_json, sha256_hex

SKILL_FILE = "SKILL.md"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class SkillDefinition(Struct, frozen=True):
    """A skill. `files` are those beside SKILL.md, relative to `folder`; `digest` is that of all of them."""

    name: str
    description: str
    body: str
    folder: str
    files: tuple[str, ...] = ()
    digest: str = ""
    of_project: bool = False


def find_skills(
    folder: Path, boundary: Path, reading: DefinitionFiles, *, of_project: bool = False
) -> Iterator[SkillDefinition]:
    """The skills in the folders of `folder`; what cannot be used is reported."""
    by_skill: dict[str, list[Path]] = {}
    for path in files_below(folder, boundary, reading):
        parts = path.relative_to(folder).parts
        if len(parts) > 1:
            by_skill.setdefault(parts[0], []).append(path)
    for name, paths in by_skill.items():
        place = folder / name
        main = place / SKILL_FILE
        text = read_text(main, reading) if main in paths else None
        if text is None:
            continue
        document = read_document(text)
        called = document.text("name") or name
        if document.problem or not document.text("description") or not _NAME.fullmatch(called):
            why = document.problem or "its head needs a name (letters, digits, - and _) and a description"
            reading.problems.append(f"{main}: {why}; the skill is left out.")
            continue
        yield SkillDefinition(
            called,
            document.text("description"),
            document.body,
            str(place),
            tuple(path.relative_to(place).as_posix() for path in paths if path != main),
            _digest(paths),
            of_project,
        )


def read_skill_file(skill: SkillDefinition, name: str) -> str | None:
    """The text of a file beside a SKILL.md; None when the skill has no such file, or it is no text."""
    return read_text(Path(skill.folder, name), DefinitionFiles()) if name in skill.files else None


def _digest(paths: list[Path]) -> str:
    contents: list[list[str]] = []
    for path in paths:
        try:
            size = path.stat().st_size
            content = sha256_hex(path.read_bytes()) if size <= FILE_BYTES else f"{size} bytes"
        except OSError:
            content = "unreadable"
        contents.append([str(path), content])
    return sha256_hex(canonical_json(contents))
