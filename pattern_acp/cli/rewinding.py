"""`pattern-acp sessions rewind`: going back from a terminal, as an editor with buttons of its own does it.

Owns: the preview as a table, the question, and what was done in words. Must not know: how anything is put back: an
agent in this process is asked over its own wire (docs/extensions.md), so that what is refused there is refused here.
"""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import anyio
import msgspec

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.serve import serve_transport
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Sessions
from pattern_acp.cli.output import printable, write_failure, write_json, write_line, write_table
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.journal.errors import LeaseHeldError, LeaseLostError
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.errors import RemoteError, RpcError
from pattern_acp.jsonrpc.transport import loopback_pair

SECONDS = 120.0
"""Longest that one answer of the agent may take: many files may have to be put back."""

HELD = frozenset({LeaseLostError.failure_code, LeaseHeldError.failure_code})
"""A terminal has no next prompt, of which these failures speak to an editor."""


async def run_rewind(arguments: Sessions, process: Process, cwd: str) -> int:
    """Show the moments, or what going back would change, and go back when the person agrees."""
    session: JsonObject = {"sessionId": arguments.session}
    try:
        async with _agent(process) as agent:
            await agent.request(
                "session/resume", {**session, "cwd": cwd, "mcpServers": []}, msgspec.Raw, deadline=SECONDS
            )
            if not arguments.text:
                _show_moments(await agent.request(wire.LIST, session, msgspec.Raw, deadline=SECONDS), arguments)
                return EXIT_OK
            wanted: JsonObject = {**session, "to": arguments.text, "overwrite": arguments.overwrite}
            raw = await agent.request(wire.PREVIEW, wanted, msgspec.Raw, deadline=SECONDS)
            preview = msgspec.json.decode(raw, type=wire.PreviewResponse)
            if arguments.preview or not arguments.json:
                _show_preview(raw, preview, arguments)
            if arguments.preview or not (arguments.json or _rows(preview, arguments)):
                return EXIT_OK
            if not (arguments.assume_yes or await anyio.to_thread.run_sync(_confirmed, arguments)):
                return EXIT_ERROR
            going: JsonObject = {**wanted, "parts": [*arguments.parts]} if arguments.parts else wanted
            raw = await agent.request(wire.RESTORE, going, msgspec.Raw, deadline=SECONDS)
            return _show_done(raw, arguments)
    except* RemoteError as group:
        [error, *_] = [each for each in group.exceptions if isinstance(each, RemoteError)]
        code = _code_of(error)
        held = f"Session {arguments.session} is open in another window; close it there, or type /rewind in it."
        write_failure(code, f"pattern-acp: {held if code in HELD else error.message}")
    return EXIT_ERROR


@asynccontextmanager
async def _agent(process: Process) -> AsyncGenerator[Dispatcher, None]:
    near, far = loopback_pair()
    client = Dispatcher(
        near,
        requests={},
        notifications={"session/update": _pass_over},
        translate=_unexplained,
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


def _code_of(error: RemoteError) -> str:
    code = error.data.get("code") if isinstance(error.data, Mapping) else None
    return code if isinstance(code, str) else error.failure_code


def _pass_over(_raw: msgspec.Raw) -> None:
    """What a client would show."""


def _unexplained(_error: Exception) -> RpcError | None:
    return None


def _when(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _show_moments(raw: msgspec.Raw, arguments: Sessions) -> None:
    found = msgspec.json.decode(raw, type=wire.ListCheckpointsResponse)
    if arguments.json:
        write_json(msgspec.json.decode(raw))
    elif not found.points:
        write_line("There is no moment to go back to; after a rewind, `undo` takes it back.")
    else:
        # Late, with all of going back behind it, which only the agent needs otherwise.
        from pattern_acp.session.rewind_text import POINT_HEADINGS, point_cells

        rows = [point_cells(one.key, one.kind, one.text, _when(one.at), one.files) for one in found.points]
        write_table([heading.upper() for heading in POINT_HEADINGS], rows)


def _show_preview(raw: msgspec.Raw, preview: wire.PreviewResponse, arguments: Sessions) -> None:
    if arguments.json:
        write_json(msgspec.json.decode(raw))
        return
    write_line(printable(f"Going to {preview.words}:"))
    if wanted := _rows(preview, arguments):
        write_table(("PART", "WHAT", "WHERE"), wanted)
    else:
        write_line("Nothing has changed since.")


def _rows(preview: wire.PreviewResponse, arguments: Sessions) -> list[tuple[str, str, str]]:
    rows = [
        *(("conversation", "loses", text) for text in preview.lost),
        *(("conversation", "gains", text) for text in preview.regained),
        *(("conversation", "goes on in another session", text) for text in _fork(preview)),
        *(("file", _what(file), file.path) for file in preview.files),
        *(("memory", block.text, block.label) for block in preview.blocks),
        *(("not kept", "stays as it is", text) for text in preview.not_kept),
    ]
    return [row for row in rows if not arguments.parts or _part(row[0]) in {*arguments.parts, ""}]


def _fork(preview: wire.PreviewResponse) -> list[str]:
    turn = preview.fork_behind
    return [f"which begins behind turn {turn}, since that is shared"] if turn else []


def _part(shown: str) -> str:
    return {"conversation": "conversation", "file": "files", "memory": "memory"}.get(shown, "")


def _what(file: wire.RewindFile) -> str:
    word = {"delete": "deleted", "create": "made again", "mode": "permissions"}.get(file.kind, "put back")
    return file.problem or (f"{word}; {file.conflict}" if file.conflict else word)


def _show_done(raw: msgspec.Raw, arguments: Sessions) -> int:
    done = msgspec.json.decode(raw, type=wire.RewindResponse)
    if arguments.json:
        write_json(msgspec.json.decode(raw))
        return EXIT_OK
    counts = [
        f"{_counted(len(done.lost), 'turn')} dropped" if done.lost else "",
        f"{_counted(len(done.regained), 'turn')} back" if done.regained else "",
        f"{_counted(len(done.files), 'file')} put back" if done.files else "",
        f"memory of {', '.join(done.blocks)} put back" if done.blocks else "",
    ]
    write_line(
        printable(f"The session is at {done.words}: {', '.join(filter(None, counts)) or 'nothing else changed'}.")
    )
    if done.fork_session_id:
        write_line(printable(f"The conversation goes on in another session: {done.fork_session_id}"))
    for path in done.kept:
        write_line(printable(f"{path} was changed by others and stays; --overwrite puts it back too."))
    for problem in done.problems:
        write_line(printable(problem))
    if not done.fork_session_id or done.files or done.blocks:
        write_line(f"`pattern-acp sessions rewind {arguments.session} undo` takes it back.")
    return EXIT_OK


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _confirmed(arguments: Sessions) -> bool:
    if arguments.json or not sys.stdin.isatty():
        write_failure("cli.not-confirmed", "pattern-acp: nothing was changed; say --yes to go back without a question.")
        return False
    try:
        return input("Go back? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False
