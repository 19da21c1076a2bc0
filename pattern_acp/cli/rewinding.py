"""`pattern-acp sessions rewind`: going back from a terminal, as an editor with buttons of its own does it.

Owns: the preview as a table, the question, and what was done in words. Must not know: how anything is put back: an
agent in this process is asked over its own wire (extensions.md), so that what is refused there is refused here.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import anyio
import msgspec
from msgspec import Struct

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.serve import serve_transport
from pattern_acp.cli.arguments import EXIT_ERROR
from pattern_acp.cli.output import agreed
from pattern_acp.cli.rendering import show_parts
from pattern_acp.cli.sessions import TerminalDesk
from pattern_acp.commands.document import Paragraph, Part, Result, Table, columns
from pattern_acp.commands.sessions import REWIND_PARTS
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.codec import LeaseHeldError, LeaseLostError, MissingSessionError
from pattern_acp.journal.sessions import get_session
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.jsonrpc.transport import loopback_pair

SECONDS = 120.0
"""Longest that one answer of the agent may take: many files may have to be put back."""

HELD = frozenset({LeaseLostError.failure_code, LeaseHeldError.failure_code})
"""A terminal has no next prompt, of which these failures speak to an editor."""


async def rewind(  # noqa: PLR0913  the options of its row
    desk: TerminalDesk,
    session: str,
    to: str,
    *,
    conversation: bool,
    files: bool,
    memory: bool,
    preview: bool,
    overwrite: bool,
    assume_yes: bool,
) -> Result | int:
    """Show the moments, or what going back would change, and go back when the user agrees.

    Raises:
        UnknownSessionError: there is no such session.
        PatternError: it cannot be done, and why.
    """
    meant = SessionId(await desk.id_of(session))
    row = await desk.database.read(lambda tx: get_session(tx, meant))
    if row is None or desk.process is None:
        raise MissingSessionError(session)
    chosen = zip(REWIND_PARTS, (conversation, files, memory), strict=True)
    asked = _Asked(meant, to, tuple(part for part, is_chosen in chosen if is_chosen), overwrite)
    try:
        async with _agent(desk.process) as agent:
            opened: JsonObject = {"sessionId": meant, "cwd": row.cwd, "mcpServers": []}
            await agent.request("session/resume", opened, msgspec.Raw, deadline=SECONDS)
            return await _go(agent, asked, desk, preview=preview, assume_yes=assume_yes)
    except* RemoteError as group:
        [error, *_] = [each for each in group.exceptions if isinstance(each, RemoteError)]
        refused = _refusal(error, meant)
    raise PatternError(refused.sentence, failure_code=refused.failure_code)


class _Asked(Struct, frozen=True):
    session: str
    to: str
    parts: tuple[str, ...]
    overwrite: bool


async def _go(agent: Dispatcher, asked: _Asked, desk: TerminalDesk, *, preview: bool, assume_yes: bool) -> Result | int:
    session: JsonObject = {"sessionId": asked.session}
    if not asked.to:
        raw = await agent.request(wire.LIST, session, msgspec.Raw, deadline=SECONDS)
        return Moments(raw, msgspec.json.decode(raw, type=wire.ListCheckpointsResponse))
    wanted: JsonObject = {**session, "to": asked.to, "overwrite": asked.overwrite}
    raw = await agent.request(wire.PREVIEW, wanted, msgspec.Raw, deadline=SECONDS)
    shown = Preview(raw, msgspec.json.decode(raw, type=wire.PreviewResponse), asked.parts)
    if preview or not (desk.json or shown.rows):
        return shown
    if not desk.json:
        show_parts(shown.document, desk.process.environ if desk.process else {}, pager=False)
    if not (assume_yes or await anyio.to_thread.run_sync(_confirmed, desk.json)):
        return EXIT_ERROR
    going: JsonObject = {**wanted, "parts": [*asked.parts]} if asked.parts else wanted
    raw = await agent.request(wire.RESTORE, going, msgspec.Raw, deadline=SECONDS)
    return Gone(raw, msgspec.json.decode(raw, type=wire.RewindResponse), asked.session)


class _Answer(Result, frozen=True):
    """The agent's answer; its JSON is that of the wire."""

    raw: msgspec.Raw

    @property
    def value(self) -> object:
        """The answer as it came."""
        return msgspec.json.decode(self.raw)


class Moments(_Answer, frozen=True):
    """The moments to which a session can go back."""

    found: wire.ListCheckpointsResponse

    @property
    def document(self) -> Sequence[Part]:
        """A table of them."""
        if not self.found.points:
            return (Paragraph("There is no moment to go back to; after a rewind, `undo` takes it back."),)
        # Late, with all of going back behind it, which only the agent needs otherwise.
        from pattern_acp.session.rewind_requests import POINT_HEADINGS, point_cells

        points = self.found.points
        rows = tuple(point_cells(one.key, one.kind, one.text, _when(one.at), one.files) for one in points)
        return (Table(columns(*POINT_HEADINGS), rows),)


class Preview(_Answer, frozen=True):
    """The changes that going back would make."""

    found: wire.PreviewResponse
    parts: tuple[str, ...]

    @property
    def document(self) -> Sequence[Part]:
        """A table of it."""
        head = Paragraph(f"Going to {self.found.words}:")
        if not self.rows:
            return head, Paragraph("Nothing has changed since.")
        return head, Table(columns("Part", "What", "Where"), self.rows)

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Part, what would become of it, and what it is."""
        found = self.found
        rows = [
            *(("conversation", "loses", text) for text in found.lost),
            *(("conversation", "gains", text) for text in found.regained),
            *(("conversation", "continues in another session", text) for text in _fork(found)),
            *(("file", _what(file), file.path) for file in found.files),
            *(("memory", block.text, block.label) for block in found.blocks),
            *(("not saved", "stays as it is", text) for text in found.not_kept),
        ]
        return tuple(row for row in rows if not self.parts or _part(row[0]) in {*self.parts, ""})


class Gone(_Answer, frozen=True):
    """The changes that going back made."""

    done: wire.RewindResponse
    session: str

    @property
    def document(self) -> Sequence[Part]:
        """Sentences about it, and how to take it back."""
        done = self.done
        counts = [
            f"{plural(len(done.lost), 'turn')} dropped" if done.lost else "",
            f"{plural(len(done.regained), 'turn')} back" if done.regained else "",
            f"{plural(len(done.files), 'file')} put back" if done.files else "",
            f"memory of {', '.join(done.blocks)} put back" if done.blocks else "",
        ]
        lines = [f"The session is at {done.words}: {', '.join(filter(None, counts)) or 'nothing else changed'}."]
        if done.fork_session_id:
            lines.append(f"The conversation continues in another session: {done.fork_session_id}")
        lines += [f"{path} was changed by others and stays; --overwrite puts it back too." for path in done.kept]
        lines += done.problems
        if not done.fork_session_id or done.files or done.blocks:
            lines.append(f"`pattern-acp sessions rewind {self.session} undo` takes it back.")
        return tuple(map(Paragraph, lines))


@asynccontextmanager
async def _agent(process: Process) -> AsyncGenerator[Dispatcher, None]:
    near, far = loopback_pair()
    client = Dispatcher(
        near,
        requests={},
        notifications={"session/update": _pass_over},
        translate=lambda _: None,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.run, name="client")

        async def serve() -> None:
            await serve_transport(process, far, last_resort=False)

        tasks.start_soon(serve, name="agent")
        try:
            await client.request(
                "initialize", {"protocolVersion": 1, "clientCapabilities": {}}, msgspec.Raw, deadline=SECONDS
            )
            yield client
        finally:
            near.close()


class _Refusal(Struct, frozen=True):
    failure_code: str
    sentence: str


def _refusal(error: RemoteError, session: str) -> _Refusal:
    found = error.data.get("code") if isinstance(error.data, Mapping) else None
    code = found if isinstance(found, str) else error.failure_code
    held = f"Session {session} is open in another window; close it there, or type /rewind in it."
    return _Refusal(code, held if code in HELD else error.message)


def _pass_over(_raw: msgspec.Raw) -> None:
    """Ignore a message that a client would show."""


def _when(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _fork(preview: wire.PreviewResponse) -> list[str]:
    turn = preview.fork_behind
    return [f"which begins behind turn {turn}, since that is shared"] if turn else []


def _part(shown: str) -> str:
    return {"conversation": "conversation", "file": "files", "memory": "memory"}.get(shown, "")


def _what(file: wire.RewindFile) -> str:
    word = {"delete": "deleted", "create": "made again", "mode": "permissions"}.get(file.kind, "put back")
    return file.problem or (f"{word}; {file.conflict}" if file.conflict else word)


def _confirmed(is_json: bool) -> bool:  # noqa: FBT001  run in a thread
    unasked = "pattern-acp: nothing was changed; say --yes to go back without a question."
    return agreed("Go back?", unasked, can_ask=not is_json)
