"""One run of `pattern-acp chat`.

Owns: the order of start and end, the two threads, and the exit code. Must not know: what a turn looks like.
"""

import io
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal
from msgspec import Struct, field, structs
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import (
    EXIT_CANCELLED,
    EXIT_ERROR,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_TIMED_OUT,
    EXIT_USAGE,
    FOR_THE_USER,
    Chat,
)
from pattern_acp.cli.chat.agent_process import AgentProcess, ChatError, Incoming, agent_command, open_agent
from pattern_acp.cli.chat.conversation import GivenImage, GivenText, read_images, read_piped, say
from pattern_acp.cli.chat.events import Happening, Inbox, PromptAnswered
from pattern_acp.cli.chat.keyboard import Interrupts
from pattern_acp.cli.output import OutputClosed, write_failure
from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.config.settings import Flags
from pattern_acp.domain.action_lines import split_action

if TYPE_CHECKING:
    from pattern_acp.cli.chat.asking import Asker
    from pattern_acp.cli.chat.conversation import Conversation, SessionToOpen
    from pattern_acp.cli.chat.events import OpenedSession
    from pattern_acp.cli.chat.interactive import Turns

T = TypeVar("T")


class Run(Struct, frozen=True):
    """The parts of one chat."""

    arguments: Chat
    process: Process
    cwd: str
    prompt: str | None
    """The only prompt; None for an interactive chat."""
    interrupts: Interrupts
    images: tuple[GivenImage, ...] = ()
    """Images for the first prompt."""
    piped: GivenText | None = None
    at_end: ExitStack = field(default_factory=ExitStack)
    """Closed behind everything else."""
    lead: "Callable[[Turns], int] | None" = None
    """Runs the turns instead of a prompt or of the user."""


Connect = Callable[[Flags], AbstractAsyncContextManager[AgentProcess]]
"""Starts an agent with these settings and ends it with the context."""


def run(
    arguments: Chat,
    process: Process,
    connect: Connect | None = None,
    lead: "Callable[[Turns], int] | None" = None,
) -> int:
    """Run a chat; the exit code. `connect` starts another agent than our own, `lead` runs the turns.

    Raises:
        ChatError: it cannot start.
    """
    if sys.stdin is None:  # started with a closed stdin
        sys.stdin = io.StringIO()
    prompt = arguments.prompt
    if prompt is None and lead is None and not sys.stdin.isatty():
        prompt = sys.stdin.read()
    if prompt is not None and not prompt.strip():
        write_failure("cli.usage", "pattern-acp chat: the prompt is empty; say what to do.")
        return EXIT_USAGE
    wish = "chat" if prompt is None else "chat /…" if prompt.lstrip().startswith("/") else ""
    if wish and lead is None:
        from pattern_acp.processes.ancestry import is_of_agent

        if is_of_agent(INSIDE_VARIABLE, process.environ):
            # A slash command does what a command of the terminal does, with the same authority; so does an answer.
            raise ChatError(FOR_THE_USER.format(wish), failure_code="cli.started-by-agent")
    chat = Run(
        arguments, process, folder(arguments.cwd), prompt, Interrupts(), read_images(arguments.images), lead=lead
    )
    try:
        if arguments.prompt is not None:
            chat = with_piped(chat)
        with chat.at_end, chat.interrupts.installed(), start_blocking_portal() as portal:
            flags = flags_of(chat)
            agent = connect(flags) if connect else open_agent(agent_command(flags), process.environ)
            with held(portal, agent) as started:
                return with_agent(chat, portal, started)
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    except OutputClosed:
        return EXIT_OK


def with_piped(chat: Run) -> Run:
    """The chat with what is piped in beside its prompt. Raises ChatError where that can not be passed."""
    given = read_piped(sys.stdin)
    # Late: mostly nothing is piped.
    from pattern_acp.commands.slash import command_in

    if given is not None and chat.prompt is not None and command_in(chat.prompt.strip()) is not None:
        say("does not use what was piped in: a slash command takes none of it.")
        return chat
    if isinstance(given, GivenImage):
        return replace(chat, images=(*chat.images, given))
    return replace(chat, piped=given)


def flags_of(chat: Run) -> Flags:
    """The agent's flags. A script that asks one model is not answered by another, of other abilities and price.

    A user at an interactive chat sees which one it is, recorded sessions have theirs, and commands need none.
    """
    arguments, prompt = chat.arguments, chat.prompt
    is_recorded = bool(arguments.session) or arguments.latest
    asks_model = prompt is not None and split_action(prompt.strip()) is None
    return structs.replace(arguments.flags, exact_model=asks_model and not is_recorded)


def folder(given: str) -> str:
    """The session's folder, absolute. Raises ChatError where there is no such folder."""
    path = Path(given).expanduser().absolute() if given else Path.cwd()
    if not path.is_dir():
        raise ChatError(f"There is no folder {path}; give an existing one with --cwd.")
    return str(path)


def with_agent(chat: Run, portal: BlockingPortal, agent: AgentProcess) -> int:
    """Connect, open the session, and chat."""
    with chat.interrupts.raised():
        # Half a second of imports, while the agent starts.
        from pattern_acp.cli.chat.conversation import open_conversation
        from pattern_acp.config.providers import key_variables
        from pattern_acp.workspace.local_terminal import LocalTerminal
    settings = chat.process.loaded.settings
    inbox: Inbox = SimpleQueue[Happening]()
    terminal = LocalTerminal(chat.process.environ, secret_variables=key_variables(settings.providers))
    with held(portal, open_conversation(agent, terminal, Incoming(inbox))) as conversation:
        with chat.interrupts.raised():
            portal.call(conversation.initialize)
            opened = portal.call(conversation.open, wanted(chat))
            conversation.images, conversation.piped = chat.images, chat.piped
            conversation.limit_seconds = chat.arguments.timeout_seconds
        return converse(chat, portal, conversation, opened)


def wanted(chat: Run) -> "SessionToOpen":
    """Return the session that the arguments name."""
    from pattern_acp.cli.chat.conversation import SessionToOpen

    arguments = chat.arguments
    recorded = bool(arguments.session) and not arguments.cwd
    return SessionToOpen(
        cwd="" if recorded else chat.cwd,
        session_id=arguments.session,
        latest=arguments.latest,
        replay=chat.prompt is None,
        mode=arguments.flags.mode,
        model=arguments.flags.model,
        thinking=arguments.flags.thinking,
    )


def converse(chat: Run, portal: BlockingPortal, conversation: "Conversation", opened: "OpenedSession") -> int:
    """Show the session and run its turns; the exit code."""
    from pattern_acp.cli.chat.asking import Asker
    from pattern_acp.cli.chat.events import SessionInfo
    from pattern_acp.cli.chat.interactive import Turns
    from pattern_acp.cli.chat.output import chat_stage, is_light, keys_of_person
    from pattern_acp.cli.chat.transcript import Transcript
    from pattern_acp.cli.chat.views import ChatView, JsonView, ScreenView

    arguments = chat.arguments
    theme = chat.process.loaded.settings.chat.theme
    light = is_light(theme, chat.process.environ)
    stage = chat_stage(json=arguments.json, plain=arguments.plain or theme == "plain", light=light)
    asker = Asker(stage.screen, stage.marks, arguments.answer, keys_of_person(stage, chat.interrupts))
    known = SessionInfo(opened.cwd, opened.title, opened.mode, opened.model)
    tail = conversation.terminals.tail
    transcript = Transcript(stage.screen, stage.answer, stage.marks, known, tail, time.monotonic)
    view: ChatView = JsonView(asker, opened.cwd) if arguments.json else ScreenView(transcript, asker)

    def start(text: str) -> None:
        portal.start_task_soon(conversation.prompt, text)

    def cancel() -> None:
        portal.start_task_soon(conversation.cancel)

    def stop_subagent() -> None:
        portal.start_task_soon(conversation.stop_subagent)

    turns = Turns(conversation.incoming.inbox, view, chat.interrupts, start, cancel, stop_subagent)
    if chat.lead is not None:
        return chat.lead(turns)
    if chat.prompt is not None:
        return one_turn(turns, chat.prompt, asker)
    from pattern_acp.cli.chat.interactive import Interactive

    folder = chat.process.loaded.paths.state
    switch = PortalSwitch(portal, conversation, opened.cwd)
    return Interactive(stage, turns, transcript, chat.interrupts, switch, folder, chat.at_end).run()


class PortalSwitch:
    """`interactive.SessionSwitch` on the loop's thread."""

    def __init__(self, portal: BlockingPortal, conversation: "Conversation", cwd: str) -> None:
        self._portal = portal
        self._conversation = conversation
        self._cwd = cwd

    def begin(self) -> "OpenedSession":
        """See `SessionSwitch.begin`."""
        return self._open("")

    def resume(self, session_id: str) -> "OpenedSession":
        """See `SessionSwitch.resume`."""
        return self._open(session_id)

    def _open(self, session_id: str) -> "OpenedSession":
        from pattern_acp.cli.chat.conversation import SessionToOpen

        wanted = SessionToOpen(self._cwd, session_id, replay=bool(session_id))
        return self._portal.call(self._conversation.open, wanted)

    def sessions(self) -> list[tuple[str, str, str]]:
        """See `SessionSwitch.sessions`."""
        found = self._portal.call(self._conversation.sessions, self._cwd)
        return [(one.session_id, one.title or "", (one.updated_at or "")[:10]) for one in found]

    def set_mode(self, mode: str) -> None:
        """See `SessionSwitch.set_mode`."""
        self._portal.call(self._conversation.set_mode, mode)


def one_turn(turns: "Turns", prompt: str, asker: "Asker") -> int:
    """Run the only turn; the exit code, which is 3 when something was refused without asking the user."""
    from pattern_acp.cli.chat.keyboard import quiet_keys

    with quiet_keys(sys.stdin):
        end = turns.run(prompt)
    if end.error and not end.is_shown:
        write_failure(end.failure, f"pattern-acp chat: {end.error}")
    elif end.failure == TIMED_OUT:
        write_failure(end.failure, "pattern-acp chat: cancelled, since the time of --timeout was up.")
    elif end.failure:
        write_failure(end.failure, "pattern-acp chat: the turn failed.")
    return exit_code(end) or (EXIT_REFUSED if asker.has_refused else EXIT_OK)


TIMED_OUT = "chat.timed-out"
"""The failure of a turn that the chat itself cancelled."""

_EXIT_CODES = {"end_turn": EXIT_OK, "refusal": EXIT_REFUSED, "cancelled": EXIT_CANCELLED}


def exit_code(end: PromptAnswered) -> int:
    """0 for a turn that ended well; 124 and 130 for one that was cancelled; 3 for a model that refused; otherwise 1."""
    if end.failure == TIMED_OUT:
        return EXIT_TIMED_OUT
    if end.failure and end.stop_reason != "refusal":
        return EXIT_ERROR
    return _EXIT_CODES.get(end.stop_reason, EXIT_ERROR)


@contextmanager
def held(portal: BlockingPortal, manager: AbstractAsyncContextManager[T]) -> Generator[T, None, None]:
    """`manager` on the loop's thread. It is not told of errors of this thread: its task group would wrap them."""
    with ExitStack() as stack:
        value = stack.enter_context(portal.wrap_async_context_manager(manager))
        try:
            yield value
        finally:
            stack.close()
