"""The connection to the agent and one session on it.

Owns: initialize, which session is opened and how, prompts and cancels. Runs on the loop's thread. Must not know: the
screen; everything for it goes into the inbox.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar, cast

import acp
import anyio
from acp import schema as sdk
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.cli.chat.agent_process import AgentProcess
from pattern_acp.cli.chat.client import ChatClient, Files, Terminals
from pattern_acp.cli.chat.errors import AgentGoneError, AgentRefusedError, ChatError
from pattern_acp.cli.chat.events import PromptAnswered
from pattern_acp.cli.chat.images import GivenImage, GivenText
from pattern_acp.cli.chat.session_info import told_by_us
from pattern_acp.cli.chat.transport import Incoming, PipeTransport
from pattern_acp.cli.session_ids import beginning_of, meant
from pattern_acp.domain.action_lines import split_action
from pattern_acp.workspace.terminal import Terminal

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_SECONDS = 1.0

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


class Opened(Struct, frozen=True):
    """The session that was opened."""

    session_id: str
    cwd: str
    title: str = ""
    mode: str = ""
    model: str = ""
    thinking: str = ""
    """Empty when the model cannot be asked to think."""
    is_new: bool = True


class _WithOptions(Protocol):
    """The shared part of the answers to session/new, load and resume."""

    @property
    def modes(self) -> sdk.SessionModeState | None: ...

    @property
    def config_options(
        self,
    ) -> "list[sdk.SessionConfigOptionSelect | sdk.SessionConfigOptionBoolean] | None": ...


class Conversation(Struct):
    """A connection to the agent, and the session that is open on it."""

    agent: AgentProcess
    connection: "acp.ClientSideConnection"
    terminals: Terminals
    incoming: Incoming
    session_id: str = ""
    images: tuple[GivenImage, ...] = ()
    """Images for the next prompt."""
    piped: GivenText | None = None
    """Piped text for the next prompt."""

    async def initialize(self) -> None:
        """The first request: what this client can do.

        Raises:
            ChatError: the agent is gone, or speaks another version.
        """
        capabilities = sdk.ClientCapabilities(
            fs=sdk.FileSystemCapabilities(read_text_file=True, write_text_file=True),
            terminal=True,
            elicitation=sdk.ElicitationCapabilities(form=sdk.ElicitationFormCapabilities()),
        )
        client = sdk.Implementation(name="pattern-acp-chat", title="pattern-acp chat", version=__version__)
        answer = await self.request(
            self.connection.initialize(
                protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities, client_info=client
            )
        )
        if answer.protocol_version != acp.PROTOCOL_VERSION:
            raise ChatError(f"The agent speaks version {answer.protocol_version} of ACP; this chat speaks version 1.")

    async def open(self, wanted: SessionToOpen) -> Opened:
        """Open the session that is wanted.

        Raises:
            ChatError: there is no such session, or the agent refuses.
        """
        if wanted.latest or wanted.session_id:
            return await self._reopen(wanted)
        answer = await self.request(self.connection.new_session(cwd=wanted.cwd, mcp_servers=[]))
        self.session_id = answer.session_id
        return _opened(answer, Opened(answer.session_id, wanted.cwd))

    async def prompt(self, text: str) -> None:
        """Run one turn; its end, good or bad, goes into the inbox."""
        try:
            images: tuple[GivenImage, ...] = ()
            if split_action(text.strip()) is None:
                # A slash command takes none; they wait for the first prompt of the model.
                images, self.images = self.images, ()
            piped, self.piped = self.piped, None
            blocks = [
                *([text_block(piped)] if piped is not None else ()),
                sdk.TextContentBlock(type="text", text=text),
                *map(image_block, images),
            ]
            answer = await self.request(self.connection.prompt(session_id=self.session_id, prompt=blocks))
            end = _ended(answer)
        except ChatError as error:
            is_shown = isinstance(error, AgentRefusedError) and error.is_shown
            is_gone = isinstance(error, AgentGoneError)
            end = PromptAnswered("", error.sentence, is_gone, failure=error.failure_code, is_shown=is_shown)
        self.incoming.withdraw()
        self.incoming.inbox.put(end)

    async def cancel(self) -> None:
        """Cancel the running turn; pending questions are answered with `cancelled` (ACP v1, cancellation)."""
        try:
            await self.connection.cancel(session_id=self.session_id)
        except ConnectionError:
            logger.info("the agent was gone before the turn could be cancelled")
        self.incoming.withdraw()

    async def stop_subagent(self) -> None:
        """End the subagent that was started last, if one runs; the turn goes on."""
        try:
            await self.request(self.connection.ext_method("pattern/subagent/stop", {"sessionId": self.session_id}))
        except ChatError as error:
            logger.info("no subagent was ended: %s", error.sentence)

    async def _reopen(self, wanted: SessionToOpen) -> Opened:
        found = await self._find(wanted)
        cwd = wanted.cwd or (found.cwd if found is not None else "")
        session_id = found.session_id if found is not None else wanted.session_id
        if not cwd:
            sentence = f"There is no session {session_id}; `pattern-acp sessions list --all` lists them."
            raise ChatError(sentence, failure_code="session.unknown")
        self.session_id = session_id
        opening = self.connection.load_session if wanted.replay else self.connection.resume_session
        answer = await self.request(opening(session_id=session_id, cwd=cwd, mcp_servers=[]))
        title = (found.title or "") if found is not None else ""
        opened = _opened(answer, Opened(session_id, cwd, title, is_new=False))
        return await self._set(wanted, opened)

    async def _set(self, wanted: SessionToOpen, opened: Opened) -> Opened:
        if wanted.mode and wanted.mode != opened.mode:
            await self.request(self.connection.set_session_mode(session_id=self.session_id, mode_id=wanted.mode))
            opened = replace(opened, mode=wanted.mode)
        if wanted.model and wanted.model != opened.model:
            setting = self.connection.set_config_option(
                config_id="model", session_id=self.session_id, value=wanted.model
            )
            await self.request(setting)
            opened = replace(opened, model=wanted.model)
        if wanted.thinking and not opened.is_new and opened.thinking and wanted.thinking != opened.thinking:
            setting = self.connection.set_config_option(
                config_id="thought_level", session_id=self.session_id, value=wanted.thinking
            )
            await self.request(setting)
            opened = replace(opened, thinking=wanted.thinking)
        return opened

    async def _find(self, wanted: SessionToOpen) -> "sdk.SessionInfo | None":
        """The wanted session in session/list, which is sorted from the newest to the oldest."""
        beginning = beginning_of(wanted.session_id)
        alike: dict[str, sdk.SessionInfo] = {}
        cursor: str | None = None
        for _ in range(LIST_PAGES):
            cwd = wanted.cwd if wanted.latest else None
            page = await self.request(self.connection.list_sessions(cwd=cwd, cursor=cursor))
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

    async def request(self, answer: Awaitable[T]) -> T:
        """Wait for the agent's answer.

        Raises:
            AgentRefusedError: the agent answered with an error.
            AgentGoneError: the agent is gone.
        """
        try:
            return await answer
        except acp.RequestError as error:
            refused = AgentRefusedError(sentence_of(error))
            refused.failure_code = code_of(error) or refused.failure_code
            refused.is_shown = _data_of(error).get("shown") is True
            raise refused from error
        except ConnectionError as error:
            raise await self.agent.gone() from error


@asynccontextmanager
async def open_conversation(
    agent: AgentProcess, terminal: Terminal, incoming: Incoming
) -> AsyncGenerator[Conversation, None]:
    """Connect to a started agent; `Conversation.initialize` comes first."""
    async with anyio.create_task_group() as tasks:
        terminals = Terminals(terminal, tasks)
        transport = PipeTransport(agent.stdin, agent.stdout, incoming.look)
        client = ChatClient(Files(), terminals, incoming.ask)
        # Forms are still unstable for the SDK.
        connection = acp.connect_to_agent(client, transport, use_unstable_protocol=True)
        conversation = Conversation(agent, connection, terminals, incoming)
        try:
            yield conversation
        finally:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await connection.close()
            tasks.cancel_scope.cancel()


def image_block(image: GivenImage) -> "sdk.ImageContentBlock":
    """An image for the wire."""
    return sdk.ImageContentBlock(type="image", data=image.data, mime_type=image.media_type, uri=image.uri)


def text_block(given: GivenText) -> "sdk.EmbeddedResourceContentBlock":
    """A text that is not the user's words, for the wire."""
    contents = sdk.TextResourceContents(uri=given.uri, text=given.text, mime_type="text/plain")
    return sdk.EmbeddedResourceContentBlock(type="resource", resource=contents)


def sentence_of(error: "acp.RequestError") -> str:
    """An error of the agent as a sentence: its details, which our agent writes for people, else its message."""
    details = _data_of(error).get("details")
    if isinstance(details, str) and details:
        return details
    return f"The agent answered with error {error.code}: {error}"


def code_of(error: "acp.RequestError") -> str:
    """The code of a failure in an error of our agent; empty in one of another."""
    code = _data_of(error).get("code")
    return code if isinstance(code, str) else ""


def _data_of(error: "acp.RequestError") -> Mapping[str, object]:
    data: object = error.data
    return cast("dict[str, object]", data) if isinstance(data, dict) else {}


def _opened(answer: _WithOptions, known: Opened) -> Opened:
    """`known` with the mode, model and thinking of the agent's answer."""
    mode = answer.modes.current_mode_id if answer.modes is not None else ""
    options = answer.config_options or ()
    current = {each.id: each.current_value for each in options if isinstance(each, sdk.SessionConfigOptionSelect)}
    return replace(known, mode=mode, model=current.get("model", ""), thinking=current.get("thought_level", ""))


def _ended(answer: sdk.PromptResponse) -> PromptAnswered:
    """The end of a turn, with what our agent adds."""
    told = told_by_us(answer.field_meta)
    jobs, failure = told.get("backgroundJobs"), told.get("failure")
    return PromptAnswered(
        answer.stop_reason,
        background_jobs=jobs if isinstance(jobs, int) else 0,
        failure=failure if isinstance(failure, str) else "",
    )
