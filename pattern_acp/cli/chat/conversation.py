"""The connection to the agent and one session on it.

Owns: initialize, which session is opened and how, prompts with their images and piped input, and cancels. Runs on the
loop's thread. Must not know: the screen, to which everything goes through the inbox; how images are scaled, which is
the agent's.
"""

import base64
import logging
import os
import select
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO, TypeVar, cast

import anyio
from msgspec import Raw, Struct
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.acp import schema
from pattern_acp.acp.initialize_response import PROTOCOL_VERSION
from pattern_acp.cli.chat.agent_process import (
    AgentGoneError,
    AgentProcess,
    AgentRefusedError,
    ChatError,
    Incoming,
    PipeTransport,
)
from pattern_acp.cli.chat.client import ChatClient, Files, Terminals
from pattern_acp.cli.chat.events import OpenedSession, PromptAnswered, told_by_us
from pattern_acp.cli.command_runner import beginning_of, meant
from pattern_acp.domain.action_lines import split_action
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import ConnectionClosedError, InvalidResultError, RemoteError
from pattern_acp.workspace.images import GIVEN_BYTES
from pattern_acp.workspace.kinds import inspect_path, kind_of_bytes
from pattern_acp.workspace.terminal import Terminal

PIPED_CHARACTERS = 2_000_000
"""Limit of piped text; the model gets both ends of a long text and reads on where it needs to."""

PIPED_URI = "stdin:///piped%20input"

WAITING_SECONDS = 3.0
"""Longest silence of a pipe before a message says that the chat waits for it."""


class GivenImage(Struct, frozen=True):
    """An image as ACP carries it: base64 text, its media type, the URI of its file."""

    data: str
    media_type: str
    uri: str


class GivenText(Struct, frozen=True):
    """Text that was piped in."""

    text: str
    uri: str = PIPED_URI


def say(sentence: str) -> None:
    """Tell the user something, on stderr."""
    sys.stderr.write(f"pattern-acp chat {sentence}\n")
    sys.stderr.flush()


def read_piped(
    stdin: TextIO, tell: Callable[[str], None] = say, *, waiting: float = WAITING_SECONDS
) -> GivenImage | GivenText | None:
    """Read a pipe or a file on stdin to its end; None without any, and for a terminal or a device.

    Raises:
        ChatError: it is neither text nor an image, or too large an image.
    """
    try:
        descriptor = stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return None
    if not stat.S_ISFIFO(mode) and not stat.S_ISREG(mode):
        return None
    if sys.platform != "win32" and not select.select([descriptor], [], [], waiting)[0]:
        tell("waits for the end of its stdin, which goes with the prompt; `< /dev/null` gives it none.")
    data = stdin.buffer.read(GIVEN_BYTES + 1)
    if not data.strip():
        return None
    kind, media_type = kind_of_bytes(data)
    if kind == "image" and len(data) <= GIVEN_BYTES:
        return GivenImage(base64.b64encode(data).decode("ascii"), media_type, PIPED_URI)
    if kind != "text":
        raise ChatError(f"What was piped in is no text and no image of at most {GIVEN_BYTES:,} bytes; pipe text.")
    text = data.decode("utf-8-sig", "replace")
    if len(text) <= PIPED_CHARACTERS:
        return GivenText(text)
    tell(f"gives only the first {PIPED_CHARACTERS:,} characters of what was piped in.")
    return GivenText(f"{text[:PIPED_CHARACTERS]}\n[cut here: more was piped in]\n")


def read_images(paths: tuple[str, ...]) -> tuple[GivenImage, ...]:
    """The images in these files. Raises ChatError where one of them is missing, no image, or too large."""
    return tuple(_read(Path(path).expanduser().absolute()) for path in paths)


def _read(path: Path) -> GivenImage:
    facts = inspect_path(str(path))
    if facts.kind == "missing":
        raise ChatError(f"There is no file {path}; give an existing image with --image.")
    if facts.kind != "image":
        raise ChatError(f"{path} is not a PNG, JPEG, GIF or WebP image.")
    if facts.size > GIVEN_BYTES:
        raise ChatError(f"{path} has {facts.size:,} bytes; at most {GIVEN_BYTES:,} can be sent.")
    return GivenImage(base64.b64encode(path.read_bytes()).decode("ascii"), facts.media_type, path.as_uri())


logger = logging.getLogger(__name__)

T = TypeVar("T")

LIST_PAGES = 100
"""Pages of session/list that are looked through for a session."""


class SessionToOpen(Struct, frozen=True):
    """The session to open. `cwd` is absolute; empty with a `session_id` for the folder it was recorded in."""

    cwd: str
    session_id: str = ""
    latest: bool = False
    """The newest session of `cwd`."""
    replay: bool = False
    """Show what an opened session said before."""
    mode: str | None = None
    model: str | None = None
    thinking: str | None = None
    """Settings for a session that was recorded with others; a new session takes them from the agent's flags."""


class _Version(Struct, rename="camel"):
    """The part of an agent's answer to initialize that a chat of any agent needs."""

    protocol_version: int


class Conversation(Struct):
    """A connection to the agent, and the session that is open on it."""

    agent: AgentProcess
    connection: Dispatcher
    terminals: Terminals
    incoming: Incoming
    images: tuple[GivenImage, ...] = ()
    """Images for the next prompt."""
    piped: GivenText | None = None
    """Piped text for the next prompt."""
    limit_seconds: float = 0.0
    """The time after which a prompt is cancelled; 0 for no limit."""
    timed_out: bool = False
    """True if the running prompt was cancelled by that."""

    @property
    def session_id(self) -> str:
        """The open session; empty before there is one."""
        return self.incoming.session_id

    async def initialize(self) -> None:
        """The first request: what this client can do.

        Raises:
            ChatError: the agent is gone, or speaks another version.
        """
        capabilities = schema.ClientCapabilities(
            fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
            terminal=True,
            elicitation=schema.ElicitationCapabilities(form=schema.Flag()),
        )
        client = schema.Implementation(name="pattern-acp-chat", title="pattern-acp chat", version=__version__)
        hello = schema.InitializeRequest(
            protocol_version=Raw(b"1"), client_capabilities=capabilities, client_info=client
        )
        answer = await self.request("initialize", hello, _Version)
        if answer.protocol_version != PROTOCOL_VERSION:
            raise ChatError(f"The agent speaks version {answer.protocol_version} of ACP; this chat speaks version 1.")

    async def open(self, wanted: SessionToOpen) -> OpenedSession:
        """Open the session that is wanted. Raises ChatError where there is no such session, or the agent refuses."""
        if wanted.latest or wanted.session_id:
            return await self._reopen(wanted)
        answer = await self.request("session/new", _place(wanted.cwd), schema.NewSessionResponse)
        self.incoming.follow(answer.session_id)
        return _opened(answer, OpenedSession(answer.session_id, wanted.cwd))

    async def sessions(self, cwd: str) -> tuple[schema.SessionInfo, ...]:
        """The newest sessions of a folder besides the open one, the newest first.

        Raises:
            ChatError: the agent refuses.
        """
        page = await self.request("session/list", schema.ListSessionsRequest(cwd=cwd), schema.ListSessionsResponse)
        return tuple(one for one in page.sessions if one.session_id != self.session_id)

    async def set_mode(self, mode: str) -> None:
        """Choose a mode. Raises ChatError where the agent refuses."""
        wanted = schema.SetModeRequest(session_id=self.session_id, mode_id=mode)
        await self.request("session/set_mode", wanted, schema.EmptyResponse)

    async def prompt(self, text: str) -> None:
        """Run one turn; its end, good or bad, goes into the inbox."""
        self.timed_out = False
        async with anyio.create_task_group() as tasks:
            if self.limit_seconds:
                tasks.start_soon(self._cancel_in_time)
            end = replace(await self._run_turn(text), session_id=self.session_id)
            tasks.cancel_scope.cancel()
            self.incoming.withdraw()
            self.incoming.inbox.put(end)

    async def _cancel_in_time(self) -> None:
        await anyio.sleep(self.limit_seconds)
        self.timed_out = True
        await self.cancel()

    async def _run_turn(self, text: str) -> PromptAnswered:
        try:
            images: tuple[GivenImage, ...] = ()
            if split_action(text.strip()) is None:
                # A slash command takes none; they wait for the first prompt of the model.
                images, self.images = self.images, ()
            piped, self.piped = self.piped, None
            blocks = (
                *([text_block(piped)] if piped is not None else ()),
                schema.TextContent(text=text),
                *map(image_block, images),
            )
            asked = schema.PromptRequest(session_id=self.session_id, prompt=blocks)
            end = _ended(await self.request("session/prompt", asked, schema.PromptResponse))
            is_late = self.timed_out and end.stop_reason == "cancelled"
            return replace(end, failure="chat.timed-out") if is_late else end
        except ChatError as error:
            is_shown = isinstance(error, AgentRefusedError) and error.is_shown
            is_gone = isinstance(error, AgentGoneError)
            return PromptAnswered("", error.sentence, is_gone, failure=error.failure_code, is_shown=is_shown)

    async def cancel(self) -> None:
        """Cancel the running turn; pending questions are answered with `cancelled` (ACP v1, cancellation)."""
        try:
            await self.connection.notify("session/cancel", schema.SessionRequest(session_id=self.session_id))
        except ConnectionClosedError:
            logger.info("the agent was gone before the turn could be cancelled")
        self.incoming.withdraw()

    async def stop_subagent(self) -> None:
        """End the subagent that was started last, if one runs; the turn continues."""
        try:
            wanted = schema.SessionRequest(session_id=self.session_id)
            await self.request("_pattern/subagent/stop", wanted, dict[str, object])
        except ChatError as error:
            logger.info("no subagent was ended: %s", error.sentence)

    async def _reopen(self, wanted: SessionToOpen) -> OpenedSession:
        found = await self._find(wanted)
        cwd = wanted.cwd or (found.cwd if found is not None else "")
        session_id = found.session_id if found is not None else wanted.session_id
        if not cwd:
            sentence = f"There is no session {session_id}; `pattern-acp sessions list --all` lists them."
            raise ChatError(sentence, failure_code="session.unknown")
        self.incoming.follow(session_id)
        recorded = {"sessionId": session_id, **_place(cwd)}
        method = "session/load" if wanted.replay else "session/resume"
        answer = await self.request(method, recorded, schema.OpenedSessionResponse)
        title = (found.title or "") if found is not None else ""
        opened = _opened(answer, OpenedSession(session_id, cwd, title, is_new=False))
        return await self._set(wanted, opened)

    async def _set(self, wanted: SessionToOpen, opened: OpenedSession) -> OpenedSession:
        if wanted.mode and wanted.mode != opened.mode:
            await self.set_mode(wanted.mode)
            opened = replace(opened, mode=wanted.mode)
        if wanted.model and wanted.model != opened.model:
            await self._choose("model", wanted.model)
            opened = replace(opened, model=wanted.model)
        if wanted.thinking and not opened.is_new and opened.thinking and wanted.thinking != opened.thinking:
            await self._choose("thought_level", wanted.thinking)
            opened = replace(opened, thinking=wanted.thinking)
        return opened

    async def _choose(self, option: str, value: str) -> None:
        setting = schema.SetConfigOptionRequest(session_id=self.session_id, config_id=option, value=value)
        await self.request("session/set_config_option", setting, schema.SetConfigOptionResponse)

    async def _find(self, wanted: SessionToOpen) -> schema.SessionInfo | None:
        """The wanted session in session/list, which is sorted from the newest to the oldest."""
        beginning = beginning_of(wanted.session_id)
        alike: dict[str, schema.SessionInfo] = {}
        cursor: str | None = None
        for _ in range(LIST_PAGES):
            cwd = wanted.cwd if wanted.latest else None
            wish = schema.ListSessionsRequest(cwd=cwd, cursor=cursor)
            page = await self.request("session/list", wish, schema.ListSessionsResponse)
            for session in page.sessions:
                if wanted.latest or session.session_id == wanted.session_id:
                    return session
                if beginning and session.session_id.startswith(beginning):
                    alike[session.session_id] = session
            cursor = page.next_cursor
            if not cursor:
                break
        if wanted.latest:
            raise ChatError(f"There is no session in {wanted.cwd} yet; leave out --continue to start one.")
        return alike.get(meant(wanted.session_id, tuple(alike)))

    async def request(self, method: str, params: object, result: type[T]) -> T:
        """Ask the agent and wait for its answer.

        Raises:
            AgentRefusedError: the agent answered with an error.
            AgentGoneError: the agent is gone.
        """
        try:
            return await self.connection.request(method, params, result, deadline=None, repair=schema.repair)
        except RemoteError as error:
            refused = AgentRefusedError(sentence_of(error))
            refused.failure_code = code_of(error) or refused.failure_code
            refused.is_shown = _data_of(error).get("shown") is True
            raise refused from error
        except InvalidResultError as error:
            raise AgentRefusedError(error.sentence) from error
        except ConnectionClosedError as error:
            raise await self.agent.gone() from error


@asynccontextmanager
async def open_conversation(
    agent: AgentProcess, terminal: Terminal, incoming: Incoming
) -> AsyncGenerator[Conversation, None]:
    """Connect to a started agent; `Conversation.initialize` comes first."""
    async with anyio.create_task_group() as tasks:
        terminals = Terminals(terminal, tasks)
        client = ChatClient(Files(), terminals, incoming)
        connection = Dispatcher(
            PipeTransport(agent.stdin, agent.stdout),
            requests=client.requests,
            notifications={"session/update": incoming.take_update},
            translate=lambda _: None,
        )
        tasks.start_soon(connection.run)
        try:
            yield Conversation(agent, connection, terminals, incoming)
        finally:
            tasks.cancel_scope.cancel()


def _place(cwd: str) -> dict[str, object]:
    # Our structs leave out what is empty, and the protocol wants the empty list.
    return {"cwd": cwd, "mcpServers": []}


def image_block(image: GivenImage) -> schema.ImageContent:
    """An image for the wire."""
    return schema.ImageContent(data=image.data, mime_type=image.media_type, uri=image.uri)


def text_block(given: GivenText) -> schema.EmbeddedResource:
    """A text that is not the user's words, for the wire."""
    contents = schema.ResourceContents(uri=given.uri, text=given.text, mime_type="text/plain")
    return schema.EmbeddedResource(resource=contents)


def sentence_of(error: RemoteError) -> str:
    """An error of the agent as a sentence: its details, which our agent writes for people, else its message."""
    details = _data_of(error).get("details")
    if isinstance(details, str) and details:
        return details
    return f"The agent answered with error {error.code}: {error.message}"


def code_of(error: RemoteError) -> str:
    """The code of a failure in an error of our agent; empty in one of another."""
    code = _data_of(error).get("code")
    return code if isinstance(code, str) else ""


def _data_of(error: RemoteError) -> Mapping[str, object]:
    data: object = error.data
    return cast("dict[str, object]", data) if isinstance(data, dict) else {}


def _opened(answer: schema.NewSessionResponse | schema.OpenedSessionResponse, known: OpenedSession) -> OpenedSession:
    """`known` with the mode, model and thinking of the agent's answer."""
    mode = answer.modes.current_mode_id if answer.modes is not None else ""
    options = answer.config_options or ()
    current = {each.id: each.current_value for each in options if isinstance(each, schema.SelectConfigOption)}
    return replace(known, mode=mode, model=current.get("model", ""), thinking=current.get("thought_level", ""))


def _ended(answer: schema.PromptResponse) -> PromptAnswered:
    """The end of a turn, with what our agent adds."""
    told = told_by_us(answer.meta)
    jobs, failure = told.get("backgroundJobs"), told.get("failure")
    return PromptAnswered(
        answer.stop_reason,
        background_jobs=jobs if isinstance(jobs, int) else 0,
        failure=failure if isinstance(failure, str) else "",
    )
