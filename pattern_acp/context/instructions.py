"""The system prompt: persona, working rules, environment, and the instruction files that hold from the start.

Owns: finding these files: AGENTS.md, and what other agents call it where there is none. Must not know: sessions.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from pattern_acp.definitions.files import read_document
from pattern_acp.definitions.identity import DefinitionSource, identity_of
from pattern_acp.definitions.personas import Persona, read_persona_file
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.late_pattern import late_pattern

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md")
"""In one folder the first that is there counts: where several are, they say the same in most projects."""

FILE_LIMIT = 32_768
"""Most bytes of one file (issue 2, section 5)."""

TOTAL_LIMIT = 65_536
"""Most bytes of all files in a system prompt; what is beyond is named and can be read."""

_ENVIRONMENT = "Environment"

_PERSONA_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_IMPORT = late_pattern(r"^\s*@[^\s@]+\s*$", re.MULTILINE)


_MEMORY_BEGINS = "<!-- memory of pattern-acp, written by /init --memory; pattern-acp does not read it back -->"
_MEMORY_ENDS = "<!-- end of memory of pattern-acp -->"
_MEMORY = late_pattern(rf"\n*{re.escape(_MEMORY_BEGINS)}.*?(?:{re.escape(_MEMORY_ENDS)}\n*|\Z)", re.DOTALL)


def without_memory(text: str) -> str:
    """The text of an instruction file without what `/init --memory` wrote there: the model has that from memory."""
    return _MEMORY.sub("\n", text) if _MEMORY_BEGINS in text else text


def with_memory(text: str, memory: str) -> str:
    """The text of an instruction file with this memory in a part of its own, instead of an earlier one."""
    # Nothing in memory can end the part.
    section = "\n".join((_MEMORY_BEGINS, memory.replace("<!--", "< !--").strip(), _MEMORY_ENDS))
    return f"{without_memory(text).rstrip()}\n\n{section}\n".lstrip()


class ProjectInstruction(Struct, frozen=True):
    """One instruction file.

    `cut` is the number of bytes left out; `problem` says why its text is not there at all. `of_person` is true for the
    user's own, which holds in every project.
    """

    path: str
    text: str
    cut: int = 0
    of_person: bool = False
    problem: str = ""
    name: str = ""
    """Its canonical name: its path from the repository's root; `~/AGENTS.md` for the user's own."""

    @property
    def source(self) -> DefinitionSource:
        """The definition under whose identity its text is stored."""
        content = {Path(self.name).name: self.text.encode("utf-8", "surrogatepass")}
        return DefinitionSource(f"instructions/{self.name}", content)

    @property
    def size(self) -> int:
        """Bytes of its text as the model reads it."""
        return len(self.text.encode("utf-8", "surrogatepass"))

    @property
    def identity(self) -> str:
        """SHA-256 of its text, whatever line ends the file has."""
        return sha256_hex("\n".join(self.text.splitlines()).encode("utf-8", "surrogatepass"))

    @property
    def definition(self) -> str:
        """The identity under which its text is stored (definitions/identity.py)."""
        return identity_of(self.source)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the model on the text."""
        cut = f"[{self.cut} bytes of this file were left out.]" if self.cut else ""
        imports = "[Lines of it that name a file, such as @docs/x.md, are not followed; read it when it matters.]"
        return tuple(note for note in (cut, imports if _IMPORT.search(self.text) else "") if note)


def own_instructions(path: Path | None) -> tuple[ProjectInstruction, ...]:
    """The user's own file, wherever it leads; none when it is not there."""
    found = _read(path, None, of_person=True) if path is not None else None
    return (found,) if found is not None else ()


def project_instructions(cwd: str, repository: str | None) -> tuple[ProjectInstruction, ...]:
    """The files of `cwd` and of its parents up to the repository's root, nearest first.

    Outside a repository only the one in `cwd` counts, so that a stray file in the home folder never instructs.
    """
    folder = Path(cwd)
    top = Path(repository) if repository else folder
    folders: list[Path] = []
    for place in (folder, *folder.parents):
        folders.append(place)
        if place == top:
            break
    # A `cwd` behind a link may have no such parent; then nothing above it is looked at.
    if folders[-1] != top:
        folders = [folder]
        top = folder
    return tuple(found for place in folders if (found := _in_folder(place, top)) is not None)


def nested_instructions(path: str, cwd: str, roots: Sequence[str]) -> tuple[ProjectInstruction, ...]:
    """The files of the folders between a file in hand and the session's folder, which has its own; outermost first.

    `path` and `roots` are absolute and resolved; nothing outside the roots is looked at.
    """
    folder = Path(path).parent
    root = next((Path(each) for each in roots if folder.is_relative_to(each)), None)
    if root is None:
        return ()
    folders: list[Path] = []
    for place in (folder, *folder.parents):
        if place == Path(cwd) or not place.is_relative_to(root):
            break
        folders.append(place)
    return tuple(found for place in reversed(folders) if (found := _in_folder(place, root)) is not None)


def instructions_at(path: str, roots: Sequence[str]) -> ProjectInstruction | None:
    """The instruction file of this path, as it is now; None when it is gone, or outside the roots."""
    root = next((Path(each) for each in roots if Path(path).is_relative_to(each)), None)
    return _read(Path(path), root) if root is not None else None


def within_total(instructions: Sequence[ProjectInstruction]) -> Iterator[ProjectInstruction]:
    """The files as far as they fit into a prompt together; the rest without text, so that the model knows of them."""
    room = TOTAL_LIMIT
    for each in instructions:
        if each.size > room:
            problem = f"Its {each.size} bytes did not fit beside the others; read it when you work below it."
            yield ProjectInstruction(each.path, "", each.cut, each.of_person, problem)
        else:
            room -= each.size
            yield each


def _in_folder(folder: Path, top: Path) -> ProjectInstruction | None:
    return next((found for name in NAMES if (found := _read(folder / name, top)) is not None), None)


def _read(path: Path, top: Path | None, *, of_person: bool = False) -> ProjectInstruction | None:
    try:
        if not path.is_file():
            return None
        if top is not None and not path.resolve().is_relative_to(top.resolve()):
            problem = "It is a link that leads out of the project, so it was not read."
            return ProjectInstruction(str(path), "", problem=problem)
        name = path.relative_to(top).as_posix() if top is not None else f"~/{path.name}"
        with path.open("rb") as file:
            data = file.read(FILE_LIMIT + 1)
        size = path.stat().st_size
    except (OSError, RuntimeError):
        return None
    text = without_memory(data[:FILE_LIMIT].decode("utf-8", "replace")).strip()
    return ProjectInstruction(str(path), text, max(0, size - FILE_LIMIT), of_person, name=name) if text else None


class Environment(Struct, frozen=True):
    """Facts for the model about where it works. Fixed for the session, so that the prefix stays byte-stable."""

    cwd: str
    additional_directories: tuple[str, ...]
    platform: str
    editor: str
    capabilities: tuple[str, ...]
    shell: str = ""
    programs: tuple[str, ...] = ()
    """Well-known programs that commands find."""
    entries: tuple[str, ...] = ()
    """The folder's entries, in names that are no sentences."""


BUILT_IN = {
    "default": "Whatever you ask for.",
    "reviewer": "Judges changes and proves what it finds; changes nothing unless you say so.",
    "onboarder": "Explains the project, and tries its documented commands.",
    "planner": "Turns a wish into a plan that names files, steps and checks.",
    "janitor": "Finds dead code, stale documents and duplicates, and proves that they can go.",
    "doctor": "Finds out why a build, a test or a program fails.",
}
"""The personas that come with the program; a file of the user by one of these names replaces it."""


def known_personas(*folders: Path) -> dict[str, str]:
    """The personas that can be chosen, each with what it is for: the built-in ones, and the files of these folders."""
    found = dict(BUILT_IN)
    # The first folder is the user's own, whose personas count before those of bundles.
    for folder in reversed(folders):
        try:
            names = sorted(path.stem for path in folder.glob("*.md") if _PERSONA_NAME.fullmatch(path.stem))
        except OSError:
            continue
        found |= {name: _purpose(name, folder / f"{name}.md") for name in names if _counts(name, folder, folders)}
    return found


def _counts(name: str, folder: Path, folders: Sequence[Path]) -> bool:
    """A persona of a bundle never replaces one that comes with the program."""
    return folder == folders[0] or name not in BUILT_IN


def _purpose(name: str, path: Path) -> str:
    try:
        return read_persona_file(name, path).description or f"As in {path}."
    except (OSError, ConfigError) as error:
        return error.sentence if isinstance(error, ConfigError) else f"{path} cannot be read."


def load_persona(name: str, folder: Path, bundled: Sequence[Path] = ()) -> Persona:
    """The persona `name`: `folder/NAME.md`, else a built-in one, else a bundle's, else the default by that name.

    `bundled` are the folders of personas that bundles bring; nothing outside of its bundle is included in one.

    Raises:
        OSError: its file cannot be read.
        ConfigError: the head of its file has a mistake, or it includes something that cannot be read.
    """
    for place in (folder, *(bundled if name not in BUILT_IN else ())):
        own = place / f"{name}.md"
        if own.is_file():
            return read_persona_file(name, own, None if place == folder else place.parent)
    template = _template("default")
    if name not in BUILT_IN:
        return Persona(name, template.replace("{persona}", name))
    prompt = template.replace("{persona}", "Pattern")
    if name != "default":
        prompt = f"{prompt}\n\n{role_of(name)}"
    return Persona(name, prompt, description=BUILT_IN[name])


@cache
def _template(name: str) -> str:
    return (Path(__file__).parent / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()


SMALL_WINDOW = 8_192
"""Tokens of the largest window for which the rules are the short ones."""


def system_in_window(system: str, window: int) -> str:
    """A system prompt for a window of so many tokens: in a small one with our working rules in short.

    What a user wrote, their own persona's rules and instruction files, stays as it is.
    """
    if window > SMALL_WINDOW:
        return system
    before, after = _template("default").split("{persona}")
    name, found, rest = system.removeprefix(before).partition(after)
    if not found or not system.startswith(before) or not _PERSONA_NAME.fullmatch(name):
        return system
    return f"{_template('small_window').replace('{persona}', name)}{rest}"


def is_built_in(name: str, identity: str) -> bool:
    """Tell whether a persona is one that comes with the program, as it comes."""
    return name in BUILT_IN and load_persona(name, NOWHERE).is_recorded_as(identity)


NOWHERE = Path("/nonexistent/personas")
"""A folder without personas, so that one that comes with the program is meant."""


def role_of(name: str) -> str:
    """Return what a persona that comes with the program learns of its role."""
    role = Path(__file__).parent / "prompts" / f"persona_{name}.md"
    return role.read_text(encoding="utf-8").strip()


def subagent_source(kind: str, folder: Path | None) -> tuple[DefinitionSource, bool]:
    """Return the rules for subagents of a kind as a definition, and whether its own are the user's `folder/KIND.md`."""
    prompts = Path(__file__).parent / "prompts"
    common, own = (prompts / "subagent.md").read_bytes(), folder / f"{kind}.md" if folder is not None else None
    is_own = own is not None and own.is_file()
    words = (own if own is not None and is_own else prompts / f"subagent_{kind}.md").read_bytes()
    return DefinitionSource(f"subagent/{kind}", {"subagent.md": common, f"subagent_{kind}.md": words}), is_own


def subagent_prompt(source: DefinitionSource, name: str) -> str:
    """Return the addition to the system prompt for the subagent `name` of the kind that `source` defines."""
    common, *own = (content.decode("utf-8", "replace") for _, content in sorted(source.files.items()))
    return "\n".join((common.strip().replace("{name}", name), *(read_document(text).body for text in own)))


def system_prompt(persona: Persona, environment: Environment, instructions: tuple[ProjectInstruction, ...]) -> str:
    """The whole system prompt."""
    sections = [persona.prompt, _environment_section(environment)]
    sections += [_instruction_section(instruction) for instruction in within_total(instructions)]
    return "\n\n".join(sections)


def persona_part(system: str) -> str:
    """The persona's part of a system prompt that `system_prompt` made."""
    return system.partition(f"\n\n{_ENVIRONMENT}\n- Working directory: ")[0]


def with_persona(system: str, persona: Persona) -> str | None:
    """A system prompt with another persona; None where it was made in another way than by `system_prompt`."""
    before = persona_part(system)
    return f"{persona.prompt}{system[len(before) :]}" if before != system else None


def with_definitions(system: str, persona: Persona, instructions: tuple[ProjectInstruction, ...]) -> str:
    """A system prompt that `system_prompt` made, with another persona and other files; its environment stays."""
    environment = system[len(persona_part(system)) :].strip("\n").partition("\n\n")[0]
    return "\n\n".join((persona.prompt, environment, *map(_instruction_section, within_total(instructions))))


def _environment_section(environment: Environment) -> str:
    lines = [
        _ENVIRONMENT,
        f"- Working directory: {environment.cwd}",
    ]
    if environment.additional_directories:
        lines.append(f"- Further folders: {', '.join(environment.additional_directories)}")
    if environment.entries:
        lines.append(f"- In it: {', '.join(environment.entries)}")
    lines.append(f"- System: {environment.platform}{f', shell: {environment.shell}' if environment.shell else ''}")
    if environment.programs:
        lines.append(f"- Programs found: {', '.join(environment.programs)}")
    if environment.editor:
        lines.append(f"- Editor: {environment.editor}")
    lines.extend(f"- {capability}" for capability in environment.capabilities)
    return "\n".join(lines)


def _instruction_section(instruction: ProjectInstruction) -> str:
    if instruction.of_person:
        head = f"Instructions of the user from {instruction.path}, for every project (the project's win over them)"
    else:
        head = f"Project instructions from {instruction.path} (nearer files win over farther ones)"
    body = f"[{instruction.problem}]" if instruction.problem else instruction.text
    return "\n".join((head, body, *instruction.notes))
