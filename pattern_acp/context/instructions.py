"""The system prompt: persona, working rules, environment, and the instruction files that hold from the start."""

from pathlib import Path

from msgspec import Struct

from pattern_acp.context.instruction_files import ProjectInstruction, within_total
from pattern_acp.domain.canonical import sha256_hex


class Persona(Struct, frozen=True):
    """Who answers. `identity` is the content hash of its prompt: what a session points at (rule R5)."""

    name: str
    prompt: str

    @property
    def identity(self) -> str:
        """SHA-256 of the prompt's text."""
        return sha256_hex(self.prompt.encode("utf-8", "surrogatepass"))


class Environment(Struct, frozen=True):
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


def subagent_prompt(kind: str, name: str) -> str:
    """What is added to the system prompt for a subagent: what holds for all, and for its kind."""
    folder = Path(__file__).parent / "prompts"
    common, own = (folder / "subagent.md", folder / f"subagent_{kind}.md")
    text = common.read_text(encoding="utf-8").replace("{name}", name)
    return f"{text.strip()}\n{own.read_text(encoding='utf-8').strip()}"


def system_prompt(persona: Persona, environment: Environment, instructions: tuple[ProjectInstruction, ...]) -> str:
    """The whole system prompt."""
    sections = [persona.prompt, _environment_section(environment)]
    sections += [_instruction_section(instruction) for instruction in within_total(instructions)]
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
    if instruction.of_person:
        head = f"Instructions of the person from {instruction.path}, for every project (the project's win over them)"
    else:
        head = f"Project instructions from {instruction.path} (nearer files win over farther ones)"
    body = f"[{instruction.problem}]" if instruction.problem else instruction.text
    return "\n".join((head, body, *instruction.notes))
