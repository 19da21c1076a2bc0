"""Events about what a session's folder brings: instructions, context that nobody typed, and what the person agreed to.

Owns: these kinds; `journal.events` has them all.
"""

from msgspec import Struct

from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.project_parts import ProjectPart


class InstructionFile(Struct, frozen=True):
    """A file whose instructions are part of a system prompt, and the bytes of it that are."""

    path: str
    size: int


class InstructionsCompiled(Struct, frozen=True):
    """The system prompt of the session, byte for byte, so that a resumed session sends the same prefix."""

    system: str
    identity: str
    files: tuple[InstructionFile, ...] = ()


class ContextAdded(Struct, frozen=True):
    """The model is told something that the person did not write: what hooks say, instructions of a folder in hand.

    It stands before the turn's prompt while nothing was answered yet, else at the end of the conversation. `sources`
    names where each part came from.
    """

    turn_id: TurnId
    message: Message
    sources: tuple[str, ...] = ()


class PromptRefused(Struct, frozen=True):
    """A hook refused the turn's prompt; the model never sees it."""

    turn_id: TurnId
    reason: str


class FolderTrustDecided(Struct, frozen=True):
    """The person decided on what a project's folder brings along.

    `decision` is `trusted`, `session`, `refused` or `revoked`; `root` is the folder with symbolic links followed,
    `digest` that of all `parts`.
    """

    root: str
    decision: str
    digest: str = ""
    parts: tuple[ProjectPart, ...] = ()
