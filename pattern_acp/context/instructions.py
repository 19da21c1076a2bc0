"""The system prompt: persona, working rules, environment, and the project's AGENTS.md."""

from pathlib import Path

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.lazy_dataclass import dataclass

AGENTS_FILE = "AGENTS.md"
AGENTS_LIMIT = 32_768
"""Most bytes of one AGENTS.md (issue 2, section 5)."""


@dataclass(frozen=True, slots=True)
class Persona:
    """Who answers. `identity` is the content hash of its prompt: what a session points at (rule R5)."""

    name: str
    prompt: str

    @property
    def identity(self) -> str:
        """SHA-256 of the prompt's text."""
        return sha256_hex(self.prompt.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class ProjectInstruction:
    """One instruction file. `cut` is the number of bytes left out."""

    path: str
    text: str
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Environment:
    """What the model should know of where it works. Fixed for the session, so that the prefix stays byte-stable."""

    cwd: str
    additional_directories: tuple[str, ...]
    platform: str
    date: str
    git_branch: str
    editor: str
    capabilities: tuple[str, ...]


def load_persona(name: str, folder: Path) -> Persona:
    """The persona `name`: `folder/NAME.md` when the person wrote one, else the built-in prompt."""
    own = folder / f"{name}.md"
    if own.is_file():
        return Persona(name, own.read_text(encoding="utf-8", errors="replace"))
    template = (Path(__file__).parent / "prompts" / "default.md").read_text(encoding="utf-8")
    shown = "Pattern" if name == "default" else name
    return Persona(name, template.replace("{persona}", shown).strip())


def project_instructions(cwd: str, repository: str | None) -> tuple[ProjectInstruction, ...]:
    """AGENTS.md of `cwd` and of its parents up to the repository's root, nearest first.

    Outside a repository only the one in `cwd` counts, so that a stray file in the home folder never instructs.
    """
    found: list[ProjectInstruction] = []
    folder = Path(cwd)
    top = Path(repository) if repository else folder
    for place in (folder, *folder.parents):
        instruction = _read_instruction(place / AGENTS_FILE)
        if instruction is not None:
            found.append(instruction)
        if place == top:
            break
    return tuple(found)


def _read_instruction(path: Path) -> ProjectInstruction | None:
    try:
        with path.open("rb") as file:
            data = file.read(AGENTS_LIMIT + 1)
        size = path.stat().st_size
    except OSError:
        return None
    cut = max(0, size - AGENTS_LIMIT)
    text = data[:AGENTS_LIMIT].decode("utf-8", "replace").strip()
    return ProjectInstruction(str(path), text, cut) if text else None


def system_prompt(persona: Persona, environment: Environment, instructions: tuple[ProjectInstruction, ...]) -> str:
    """The whole system prompt."""
    sections = [persona.prompt, _environment_section(environment)]
    sections += [_instruction_section(instruction) for instruction in instructions]
    return "\n\n".join(sections)


def _environment_section(environment: Environment) -> str:
    lines = [
        "Environment",
        f"- Working directory: {environment.cwd}",
    ]
    if environment.additional_directories:
        lines.append(f"- Further folders: {', '.join(environment.additional_directories)}")
    lines.append(f"- System: {environment.platform}")
    lines.append(f"- Session started on: {environment.date}")
    if environment.git_branch:
        lines.append(f"- Git branch at the start: {environment.git_branch}")
    if environment.editor:
        lines.append(f"- Editor: {environment.editor}")
    lines.extend(f"- {capability}" for capability in environment.capabilities)
    return "\n".join(lines)


def _instruction_section(instruction: ProjectInstruction) -> str:
    note = f"\n[{instruction.cut} bytes of this file were left out.]" if instruction.cut else ""
    return (
        f"Project instructions from {instruction.path} (nearer files win over farther ones)\n{instruction.text}{note}"
    )
