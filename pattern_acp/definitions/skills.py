"""Skills: folders with a SKILL.md, in the open format of agentskills.io.

Owns: finding them, what their heads say, the files beside, and their text with arguments. Must not know: when one is
loaded. The tier of a skill is that of the place where it was found.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.definitions.commands import expanded
from pattern_acp.definitions.files import (
    FILE_BYTES,
    DefinitionFiles,
    Document,
    as_text,
    bodies_of,
    included_sources,
    is_whole,
    names_below,
    read_document,
    read_text,
    with_values,
)
from pattern_acp.definitions.identity import DefinitionSource, KeptSource, Leaves, file_hash, identities, leaves_of
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.late_pattern import late_pattern

SKILL_FILE = "SKILL.md"

SKILL_TOOL = "skill"
"""Name of the tool that loads skills, and of the call that shows one which the user loaded."""

MOST_FILES = 4_000
"""Files below one folder of skills that are looked at: 200 skills with 20 files each."""

HASHED_BYTES = 8_000_000
"""A larger file beside a SKILL.md counts by its size alone: each start would read it whole."""

MOST_NAMED = 20
"""Files of a skill that its instructions are loaded with the paths of."""

SHOWN_CHARACTERS = 4_000
"""Characters of one file that the user is shown, and that are compared when it changes."""

_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

TIERS = frozenset((*TrustTier, "first-party", "project-local", "plugin-installed"))
"""Words that a head may have for a tier, ours and those of earlier formats; none of them gains anything."""

_READ = frozenset(
    (
        *("name", "description", "keywords", "tags", "allowed-tools", "arguments", "argument-hint", "metadata"),
        *("disable-model-invocation", "user-invocable", "trust_tier", "trust-tier", "include"),
    )
)


class SkillDefinition(Struct, frozen=True):
    """A skill. `files` are those beside SKILL.md, relative to `folder`.

    `digest` is its identity (definitions/identity.py), over all of them and what it includes.
    """

    name: str
    description: str
    body: str
    folder: str
    files: tuple[str, ...] = ()
    digest: str = ""
    tier: TrustTier = TrustTier.USER
    bundle: str = ""
    """The bundle that brought it; empty for none."""
    keywords: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Tools that it says it needs. They are shown and grant nothing."""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, for places such as `$branch` in its text."""
    hint: str = ""
    for_model: bool = True
    """False for one that only the user loads."""
    for_user: bool = True
    """False for one that is no slash command."""
    claim: str = ""
    """The tier that its head claims."""
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other keys of its head, such as `license`."""
    includes: tuple[str, ...] = ()
    """Files of the same root, and folders of skills, whose text is behind its own."""
    kept: KeptSource | None = None
    """The stored source that it was read from; None for one that was read from its folder."""

    @property
    def symbol(self) -> str:
        """Its canonical name."""
        return f"skill/{self.name}"

    @property
    def of_project(self) -> bool:
        """True for a skill that lies in the project, and so waits for trust in it."""
        return self.tier in {TrustTier.PROJECT, TrustTier.AD_HOC}

    @property
    def source(self) -> str:
        """Its tier, with the name of its bundle."""
        return f"bundle {self.bundle}" if self.bundle else self.tier.value

    @property
    def shown(self) -> str:
        """The text that the user reads before they trust it: what its head says, and its instructions."""
        lines = [self.description]
        lines += [f"says that it uses: {', '.join(self.tools)}"] if self.tools else []
        lines += [f"files: {', '.join(self.files)}"] if self.files else []
        return "\n".join((*lines, "", self.body))[:SHOWN_CHARACTERS].rstrip()

    def text(self, typed: str) -> str:
        """Its instructions with what was typed behind its name filled in."""
        words = typed.split()
        body = self.body
        for number, name in enumerate(self.arguments):
            value = words[number] if number < len(words) else ""
            body = re.sub(rf"\$(?:{re.escape(name)}\b|\{{{re.escape(name)}\}})", lambda _, v=value: v, body)
        # A place for what was typed that is filled in already needs no second one at the end.
        return body if body != self.body and "$ARGUMENTS" not in self.body else expanded(body, typed, {})


_LOADED = late_pattern(
    r"\[skill:loaded (?P<name>[A-Za-z0-9_-]{1,64}), (?P<source>[a-z-]+(?: [A-Za-z0-9_-]{1,64})?)\]\n"
)


def framed(skill: SkillDefinition, typed: str) -> str:
    """The instructions of a skill between the two lines by which models, and `loaded_in`, know them."""
    # A body cannot end the frame: its own lines of this form are broken up.
    body = skill.text(typed).replace("[skill:", "[skill :")
    files = ", ".join(str(Path(skill.folder, name)) for name in skill.files[:MOST_NAMED])
    more = f" and {len(skill.files) - MOST_NAMED} more" if len(skill.files) > MOST_NAMED else ""
    beside = f"Its folder is {skill.folder}; its files: {files or 'none'}{more}."
    return f"[skill:loaded {skill.name}, {skill.source}]\n{beside}\n\n{body}\n[skill:loaded:end]"


def loaded_in(text: str) -> tuple[str, str] | None:
    """The name and the source of the skill that a recorded text of `framed` is about; None for any other text."""
    match = _LOADED.match(text)
    return (match["name"], match["source"]) if match else None


def written_skill(before: str | None, name: str, description: str, keywords: Sequence[str], body: str) -> str:
    """The text of a SKILL.md with new values; of an earlier text unknown keys, tables and comments stay.

    Raises:
        ValueError: it would be no skill, and why.
    """
    values = {"name": name, "description": " ".join(description.split())}
    if keywords:
        values["keywords"] = ", ".join(" ".join(word.split()) for word in keywords)
    text = with_values(before or "", values, f"\n{body.strip()}\n")
    problem = _checked(read_document(text), name).problem
    if problem or len(text.encode("utf-8", "surrogatepass")) > FILE_BYTES:
        raise ValueError(problem or f"it is larger than {FILE_BYTES // 1000} kB")
    return text


def find_skills(
    folder: Path, boundary: Path, reading: DefinitionFiles, *, tier: TrustTier = TrustTier.USER, bundle: str = ""
) -> Iterator[SkillDefinition]:
    """The skills in the folders of `folder`; what cannot be used is reported."""
    by_skill: dict[str, list[str]] = {}
    root = str(folder)
    for path in names_below(root, boundary, reading, most=MOST_FILES):
        name, separator, _ = path[len(root) + 1 :].partition(os.sep)
        if separator:
            by_skill.setdefault(name, []).append(path)
    for name, paths in by_skill.items():
        place = f"{root}{os.sep}{name}"
        if f"{place}{os.sep}{SKILL_FILE}" not in paths:
            continue
        found = _read_skill(place, tuple((path, _stamp(path)) for path in paths))
        reading.problems += found.problems
        if found.skill is not None:
            skill = found.skill
            if tier is not skill.tier or bundle != skill.bundle:
                skill = replace(skill, tier=tier, bundle=bundle)
            yield _with_included(skill, found.leaves, boundary, reading) if skill.includes else skill


def read_skill_file(skill: SkillDefinition, name: str) -> str | None:
    """The text of a file beside a SKILL.md; None when the skill has no such file, or it is no text."""
    if name not in skill.files:
        return None
    if skill.kept is None:
        return read_text(Path(skill.folder, name), DefinitionFiles())
    try:
        return skill.kept.files.get(name, b"\xff").decode("utf-8")
    except UnicodeDecodeError:
        return None


def skill_sources(
    skill: SkillDefinition, boundary: Path | None = None
) -> tuple[tuple[DefinitionSource, ...], dict[str, str]]:
    """A skill's files as they are on the disk now, with all that it includes; the hashes of those too large to be read.

    The caller compares their identity with the skill's: a file may have changed since.
    """
    if skill.kept is not None:
        return skill.kept.definitions, {}
    folder = Path(skill.folder)
    files, hashes = dict[str, bytes](), dict[str, str]()
    for name in (SKILL_FILE, *skill.files):
        path = folder / name
        try:
            if path.stat().st_size > FILE_KEPT_BYTES:
                hashes[name] = _hash_of(name, path)
            else:
                files[name] = path.read_bytes()
        except OSError:
            hashes[name] = _UNREADABLE
    source = DefinitionSource(skill.symbol, files, skill.includes)
    return included_sources(source, _root(folder), boundary or Path(folder.anchor), DefinitionFiles()), hashes


def skill_leaves(
    skill: SkillDefinition, closure: Sequence[DefinitionSource], hashes: Mapping[str, str]
) -> tuple[Leaves, ...]:
    """The hashes of what `skill_sources` found."""
    found = (leaves_of(each) for each in closure)
    return tuple(
        Leaves(each.symbol, {**each.files, **hashes}, each.includes) if each.symbol == skill.symbol else each
        for each in found
    )


def kept_skill(kept: KeptSource, place: str, tier: TrustTier, bundle: str = "") -> SkillDefinition | None:
    """A skill from its stored source; None when that is no skill."""
    own = next((each for each in kept.definitions if each.symbol == kept.symbol), None)
    if own is None or SKILL_FILE not in own.files or not is_whole(kept.definitions, kept.symbol):
        return None
    names = tuple(name for name in own.files if name != SKILL_FILE)
    found = _skill_of(own.files[SKILL_FILE].decode("utf-8", "replace"), Path(place), names, kept.identity)
    if found.skill is None:
        return None
    body = "\n\n".join((found.skill.body, *bodies_of(kept.definitions, kept.symbol)))
    return replace(found.skill, tier=tier, bundle=bundle, kept=kept, body=body)


FILE_KEPT_BYTES = 1_000_000
"""A larger file is stored by its hash alone."""

_UNREADABLE = "unreadable"


class _Found(Struct, frozen=True):
    skill: SkillDefinition | None
    problems: tuple[str, ...]
    leaves: Leaves | None = None


def _root(folder: Path) -> Path:
    """The folder that holds the folder of skills: what a skill includes is named from there."""
    return folder.parent.parent


def _with_included(
    skill: SkillDefinition, leaves: Leaves | None, boundary: Path, reading: DefinitionFiles
) -> SkillDefinition:
    source = DefinitionSource(skill.symbol, {}, skill.includes)
    closure = included_sources(source, _root(Path(skill.folder)), boundary, reading)
    others = [leaves_of(each) for each in closure if each.symbol != skill.symbol]
    known = (leaves, *others) if leaves is not None else tuple(others)
    body = "\n\n".join((skill.body, *bodies_of(closure, skill.symbol)))
    return replace(skill, body=body, digest=identities(known).get(skill.symbol, skill.digest))


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=1_024)
def _read_skill(folder: str, files: tuple[tuple[str, tuple[int, ...]], ...]) -> _Found:
    """Read a skill; each prompt looks at all of them, so that one whose files are as they were is not read again.

    Each file is opened once: at a start there may be hundreds.
    """
    hashes: dict[str, str] = {}
    main: bytes | None = None
    for path, stamp in files:
        name, size = path[len(folder) + 1 :].replace(os.sep, "/"), stamp[2] if stamp else 0
        if size > HASHED_BYTES:
            hashes[name] = f"size:{size}"
            content = bytes(FILE_BYTES + 1)
        else:
            content = _bytes(path)
            hashes[name] = _UNREADABLE if content is None else file_hash(name, content)
        if name == SKILL_FILE:
            main = content
    reading, place = DefinitionFiles(), Path(folder)
    text = as_text(place / SKILL_FILE, main, reading)
    if text is None:
        return _Found(None, tuple(reading.problems))
    found = _skill_of(text, place, tuple(name for name in hashes if name != SKILL_FILE), "")
    if found.skill is None:
        return found
    leaves = Leaves(found.skill.symbol, hashes, found.skill.includes)
    return _Found(replace(found.skill, digest=identities((leaves,))[leaves.symbol]), (), leaves)


def parsed_skills() -> int:
    """The number of skills that this process has read and parsed; what it knows by their stamps is not among them."""
    return _read_skill.cache_info().misses


def _bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return None


def _hash_of(name: str, path: Path) -> str:
    try:
        size = path.stat().st_size
        return file_hash(name, path.read_bytes()) if size <= HASHED_BYTES else f"size:{size}"
    except OSError:
        return _UNREADABLE


def _skill_of(text: str, place: Path, names: tuple[str, ...], digest: str) -> _Found:
    """Read a SKILL.md; `names` are the files beside it."""
    document = _checked(read_document(text), place.name)
    if document.problem:
        return _Found(None, (f"{document.place_in(place / SKILL_FILE)}: {document.problem}; the skill is left out.",))
    metadata = document.table("metadata")
    keywords = (*document.items("keywords"), *document.items("tags"), *metadata.items("keywords"))
    skill = SkillDefinition(
        document.text("name") or place.name,
        document.text("description"),
        document.body,
        str(place),
        names,
        digest,
        keywords=tuple(dict.fromkeys(keywords)),
        tools=document.items("allowed-tools"),
        arguments=tuple(name.strip("[]<>") for name in " ".join(document.items("arguments")).split()),
        hint=(document.text("argument-hint") or document.text("arguments"))[:100],
        for_model=document.text("disable-model-invocation") != "true",
        for_user=document.text("user-invocable") != "false",
        claim=_claim(document)[1],
        includes=document.items("include"),
        more={key: document.text(key)[:200] for key in document.head if key not in _READ and document.text(key)},
    )
    return _Found(skill, ())


def _checked(document: Document, folder: str) -> Document:
    """The head of a SKILL.md, with the first thing that keeps it from being a skill."""
    if document.problem:
        return document
    if not document.entries:
        return replace(document, problem="it begins with no head, which needs a name and a description")
    if "name" in document.head and not document.text("name"):
        return document.with_problem("name", "the name is empty")
    if not _NAME.fullmatch(document.text("name") or folder):
        return document.with_problem("name", "the name may have letters, digits, - and _, and 64 characters at most")
    if not document.text("description"):
        return document.with_problem("description", "the head needs a description")
    key, claim = _claim(document)
    if claim and claim not in TIERS:
        return document.with_problem(key, f"there is no tier {claim[:40]!r}; tiers are {', '.join(TrustTier)}")
    return document


def _claim(document: Document) -> tuple[str, str]:
    return next(
        ((key, document.text(key)) for key in ("trust_tier", "trust-tier") if key in document.head), ("trust_tier", "")
    )
