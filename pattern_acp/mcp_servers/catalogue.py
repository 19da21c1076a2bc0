"""What a server offers, as values of ours.

Owns: the value types, and what two definitions of a tool have in common. Must not know: the `mcp` package.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.domain.messages import ImagePart

Report = Callable[[str], Awaitable[None]]
"""Told how far a call is, in a line."""


class RemoteTool(Struct, frozen=True):
    """A tool of a server, in the server's own words."""

    name: str
    description: str
    input_schema: JsonObject
    title: str = ""
    read_only: bool = False
    """The server's own word (`readOnlyHint`); what is called so is asked about all the same."""
    repeatable: bool = False
    """Whether the server says that a second call changes nothing more (`idempotentHint`, `readOnlyHint`)."""

    @property
    def definition(self) -> str:
        """All that the person agrees to when a tool is first used: name, description, schema, and the read-only hint.

        Lines, so that two of them can be compared.
        """
        import json

        schema = json.dumps(self.input_schema, sort_keys=True, indent=1, ensure_ascii=False)
        kind = "says that it only reads" if self.read_only else "may change things"
        return f"{self.name} ({kind})\n{self.description}\n{schema}"

    @property
    def digest(self) -> str:
        """SHA-256 of the definition."""
        return sha256_hex(self.definition.encode("utf-8", "surrogatepass"))


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt; all are text."""

    name: str
    required: bool = False


class RemotePrompt(Struct, frozen=True):
    """A prompt that a server keeps ready for the person."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


class RemoteResource(Struct, frozen=True):
    """Something that can be read from a server."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""


class Catalogue(Struct, frozen=True):
    """Everything that a server offers, in its own order."""

    tools: tuple[RemoteTool, ...] = ()
    prompts: tuple[RemotePrompt, ...] = ()
    resources: tuple[RemoteResource, ...] = ()
    instructions: str = ""
    may_change: bool = False
    """Whether the server says that its tools may change while it runs."""
    left_out: tuple[str, ...] = ()
    """Entries of its lists that cannot be used, each with the reason, such as "the tool `a` (it has no name)"."""

    def tool(self, name: str) -> RemoteTool | None:
        """The tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)


class Reply(Struct, frozen=True):
    """What a server answered to a call, a prompt or a read: text for the model, and images."""

    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()
