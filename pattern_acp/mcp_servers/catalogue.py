"""Offers of a server, as values of ours: names, definitions the user agreed to; and the port to stored logins.

Owns: the value types, names that models accept, pins, and what two definitions of a tool have in common; the value of a
login, its name in the store, when a token is renewed, and what a start gets. Must not know: the `mcp` package,
keyrings.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from pattern_acp.config.settings import McpServerSettings, repr_without
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import ImagePart
from pattern_acp.processes.groups import ChildProgramPorts


class ServerError(PatternError):
    """A server is missing, refused, or did not answer. The sentence names it."""

    failure_code = "mcp.failed"


class HttpRefusedError(ServerError):
    """A server refused a request by an HTTP status. `why` is the reason, as the end of a sentence."""

    failure_code = "mcp.failed"

    def __init__(self, sentence: str, why: str, *, wants_login: bool = False) -> None:
        super().__init__(sentence)
        self.why = why
        self.wants_login = wants_login


class SessionForgottenError(ServerError):
    """A server no longer knows the session that it issued, and did not begin the request."""

    failure_code = "mcp.failed"


class CannotStartError(ServerError):
    """A server cannot be started at all, so that a retry would fail in the same way."""

    failure_code = "mcp.cannot-start"


class LoginWantedError(CannotStartError):
    """A server wants the user to sign in."""

    failure_code = "mcp.cannot-start"


Report = Callable[[str], Awaitable[None]]
"""Receives the progress of a call, as one line."""


FileUse: TypeAlias = Literal["read", "write"]


class RemoteTool(Struct, frozen=True):
    """A tool of a server, in the server's own words."""

    name: str
    description: str
    input_schema: JsonObject
    title: str = ""
    read_only: bool = False
    """The server's own claim (`readOnlyHint`); such a tool asks all the same."""
    repeatable: bool = False
    """True if the server claims that a second call changes nothing more (`idempotentHint`, `readOnlyHint`)."""
    files: FileUse | None = None
    """The use of a tool by which an editor serves the text of its files."""

    @property
    def definition(self) -> str:
        """Everything that the user agrees to at the first use: name, description, schema, and the read-only hint.

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
    """A prompt template that a server offers to the user."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


class RemoteResource(Struct, frozen=True):
    """A resource that can be read from a server."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""


class FileTools(Struct, frozen=True):
    """The tools by which a server reads and writes text files; an empty name: it cannot."""

    read: str
    write: str
    by_lines: bool = False
    """True when it reads some lines of a file, by `line` and `limit`."""


class Catalogue(Struct, frozen=True):
    """Everything that a server offers, in its own order."""

    tools: tuple[RemoteTool, ...] = ()
    prompts: tuple[RemotePrompt, ...] = ()
    resources: tuple[RemoteResource, ...] = ()
    instructions: str = ""
    may_change: bool = False
    """True if the server says that its tools may change while it runs."""
    left_out: tuple[str, ...] = ()
    """Entries of its lists that cannot be used, each with the reason, such as "the tool `a` (it has no name)"."""

    def tool(self, name: str) -> RemoteTool | None:
        """The tool of this name."""
        return next((tool for tool in self.tools if tool.name == name), None)

    @property
    def files(self) -> FileTools | None:
        """Its tools for text files; None when it cannot read any."""
        reads = next((tool for tool in self.tools if tool.files == "read"), None)
        if reads is None:
            return None
        known = reads.input_schema.get("properties")
        by_lines = isinstance(known, Mapping) and {"line", "limit"} <= known.keys()
        return FileTools(reads.name, next((tool.name for tool in self.tools if tool.files == "write"), ""), by_lines)


class Reply(Struct, frozen=True):
    """Answer of a server to a call, a prompt or a read: text for the model, and images."""

    text: str
    is_error: bool = False
    images: tuple[ImagePart, ...] = ()


class Pin(Struct, frozen=True):
    """The definition of a tool to which the user agreed."""

    tool: str
    digest: str
    definition: str


class News(Struct, frozen=True):
    """The news about a tool: a sentence, and the definition that the user agreed to before, if any."""

    sentence: str = ""
    before: str = ""


def pin_of(tool: RemoteTool) -> Pin:
    """The pin of a tool's current definition."""
    return Pin(tool.name, tool.digest, tool.definition)


def news_of(server: str, tool: RemoteTool, pins: Mapping[str, Pin]) -> News:
    """The news about a tool for the user; an empty sentence when there are none."""
    if not pins:
        return News(f"It is the first use of the MCP server `{server}` as it is set up now.")
    pin = pins.get(tool.name)
    if pin is None:
        return News(f"The MCP server `{server}` has added this tool since you agreed to its tools.")
    if pin.digest != tool.digest:
        return News(f"The MCP server `{server}` has changed this tool since you agreed to it.", pin.definition)
    return News()


def load_pins(tx: Transaction, server: str, identity: str) -> dict[str, Pin]:
    """The pins of a server's tools, by name."""
    rows = tx.all(load_queries("pattern_acp.mcp_servers")["load_pins"], {"server": server, "identity": identity})
    return {str(tool): Pin(str(tool), str(digest), str(definition)) for tool, digest, definition in rows}


def store_pin(tx: Transaction, server: str, identity: str, pin: Pin, *, seq: int, at_ms: int) -> None:
    """Store the pin of a tool."""
    values = {
        "server": server,
        "identity": identity,
        "tool": pin.tool,
        "digest": pin.digest,
        "definition": pin.definition,
        "pinned_ms": at_ms,
        "last_seq": seq,
    }
    tx.execute(load_queries("pattern_acp.mcp_servers")["store_pin"], values)


SEPARATOR = "__"
NAME_LIMIT = 64
"""Longest tool name that Anthropic and OpenAI accept."""

SERVER_LIMIT = 24
"""Limit on the server's part of the name, so that the tool's part stays readable."""

PROMPT_LIMIT = 40
"""Limit on the prompt's part in the slash command for it."""

_HASH_DIGITS = 6
_FORBIDDEN = late_pattern(r"[^a-zA-Z0-9_-]+")


def tool_names(tools: Sequence[tuple[str, str]], taken: Collection[str] = ()) -> tuple[str, ...]:
    """Return a name for each (server, tool), in their order, different from each other and from `taken`.

    A name depends on its own pair alone unless two collide, so that it stays when other tools come and go.
    """
    used = set(taken)
    names: list[str] = []
    for server, tool in tools:
        name = first = _joined(server, tool)
        number = 2
        while name in used:
            name = _numbered(first, number)
            number += 1
        used.add(name)
        names.append(name)
    return tuple(names)


def typed_names(prompts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The command that users type for each (server, prompt): without a mark, unless it is cut or ambiguous."""
    plain = [(_plain(server), _plain(prompt)) for server, prompt in prompts]
    fitting = [
        short == pair or (plain.count(short) == 1 and all(short)) for pair, short in zip(prompts, plain, strict=True)
    ]
    return tuple(
        f"{clean(server, SERVER_LIMIT)}:{clean(prompt, PROMPT_LIMIT)}"
        for server, prompt in (
            short if fits else pair for pair, short, fits in zip(prompts, plain, fitting, strict=True)
        )
    )


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("_", text).strip("_")


def clean(text: str, limit: int) -> str:
    """Reduce `text` to allowed characters; if it loses any, a hash at its end tells different texts apart."""
    plain = _FORBIDDEN.sub("_", text)
    if plain == text and 0 < len(text) <= limit:
        return text
    return _marked(plain[:limit], text, limit)


def _joined(server: str, tool: str) -> str:
    prefix = clean(server, SERVER_LIMIT) + SEPARATOR
    return prefix + clean(tool, NAME_LIMIT - len(prefix))


def _marked(name: str, source: str, limit: int = NAME_LIMIT) -> str:
    mark = sha256_hex(source.encode("utf-8", "surrogatepass"))[:_HASH_DIGITS]
    return f"{name[: limit - len(mark) - 1]}_{mark}"


def _numbered(name: str, number: int) -> str:
    end = f"_{number}"
    return name[: NAME_LIMIT - len(end)] + end


RENEW_BEFORE_MS = 60_000
"""A token is renewed this long before its end, so that a call that takes a while still has a valid one."""

LOGIN_PREFIX = "mcp:"
"""Beginning of the names of logins in the store, which holds the keys of providers, too."""

_KEY_DIGITS = 12


class Login(Struct, frozen=True):
    """Tokens of a login, and what renewing them takes. Secrets stay out of the repr."""

    access_token: str
    refresh_token: str = ""
    expires_at_ms: int | None = None
    """Expiry of the access token, in milliseconds UTC; None when unknown."""
    client: str = ""
    """JSON: what the authorization server knows us by, and where it is."""

    def __repr__(self) -> str:
        return repr_without(self, "access_token", "refresh_token", "client")

    def is_over(self, now_ms: int, refused: str = "") -> bool:
        """Return whether it has to be renewed: it ends soon, or the server `refused` it."""
        if refused and self.access_token == refused:
            return True
        return self.expires_at_ms is not None and self.expires_at_ms - now_ms <= RENEW_BEFORE_MS


class Redirects(Protocol):
    """The end of a sign-in on this machine, to which the browser comes back."""

    url: str
    """The redirect URI."""

    async def redirect(self) -> str:
        """Path and query of the address that the browser came back to. Waits as long as it takes."""
        ...

    async def show(self, sentence: str) -> None:
        """Show the browser how it ended."""
        ...


class Logins(Protocol):
    """The user's logins. The methods raise SignInError when what is stored cannot be read or written."""

    shows_browser: bool
    """True when the user sees a browser that is opened here."""

    def now_ms(self) -> int:
        """The time, milliseconds UTC."""
        ...

    async def load(self, key: str) -> Login | None:
        """The login of this name."""
        ...

    async def save(self, key: str, login: Login) -> None:
        """Store a login instead of the one that there was."""
        ...

    def locked(self, key: str) -> AbstractAsyncContextManager[None]:
        """Keep other processes from renewing the same login meanwhile."""
        ...

    def listen(self, port: int) -> AbstractAsyncContextManager[Redirects]:
        """Listen for the browser on 127.0.0.1; on any port where this one is taken."""
        ...

    async def open_browser(self, url: str) -> None:
        """Open the user's browser, if it would be seen."""
        ...


def login_key(url: str) -> str:
    """Return the name under which the login at a server is stored.

    It depends on the address alone, and on all of it: a server by the same name elsewhere gets no token. What follows
    the path may hold a key and is shown as a hash.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    shown = f"{LOGIN_PREFIX}{parts.scheme.lower()}://{host}{parts.path}"
    is_whole = not parts.query and "@" not in parts.netloc
    return shown if is_whole else f"{shown}#{sha256_hex(url.encode())[:_KEY_DIGITS]}"


def can_login(settings: McpServerSettings) -> bool:
    """Return whether a login is of use: the server is reached over HTTP and has no `Authorization` of its own."""
    has_own = any(name.lower() == "authorization" for name in settings.headers)
    return settings.transport in {"http", "sse"} and not has_own


Heard: TypeAlias = Callable[[str, JsonObject], None]
"""Takes a notification that belongs to a request: its method and parameters."""

AskClient: TypeAlias = Callable[[str, str, JsonObject, Heard], Awaitable[JsonObject]]
"""Asks a server of the client, by its id: method, parameters, and what takes notifications meanwhile.

It returns the answer as the server gave it, `{"result": …}` or `{"error": …}`, and raises ServerError without one."""


class LaunchContext(Struct, frozen=True):
    """Folder and environment in which a server is started."""

    cwd: str
    ports: ChildProgramPorts
    logins: Logins | None = None
    """The logins at servers over HTTP; None: none are stored."""
    ask_client: AskClient | None = None
    """Asks servers that the client offers over its own connection; None: it offers none."""
