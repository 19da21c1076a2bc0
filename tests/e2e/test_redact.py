"""A redaction over the real process: what a session did with a word, and what is left of it in the whole folder."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pattern_acp.db.connection import Transaction, read_file
from pattern_acp.db.segment_files import SegmentReading, read_lines
from pattern_acp.db.table_rows import columns_of, each_row, ordinary_tables
from pattern_acp.domain.canonical import Json
from pattern_acp.journal.contents import PackedError, unpack
from tests.support.editor import choose
from tests.support.process import Launch, run_command_line, running_process, write_script

pytestmark = pytest.mark.e2e

WORD = "wisteria-4711"
FOLDER = Path("constellations", "default")


def call(tool: str, **arguments: object) -> dict[str, object]:
    return {"tool": tool, "arguments": arguments}


TURNS: list[list[dict[str, object]]] = [
    [
        {"thinking": f"The word is {WORD}."},
        {"text": f"I begin with {WORD}."},
        call("run_command", command=f"echo {WORD}"),
    ],
    [call("run_command", command=f"echo {WORD}; cat big.txt"), call("run_command", command=f"ls -l {WORD}.txt")],
    [call("write_file", path=f"{WORD}.txt", content=f"a\n{WORD}\nb\n")],
    [
        call("edit_file", path=f"{WORD}.txt", old_text="a\n", new_text=f"{WORD} 2\n"),
        call("read_file", path=f"{WORD}.txt"),
    ],
    [call("update_plan", entries=[{"content": f"Plant {WORD}", "status": "in_progress"}])],
    [call("run_command", command=f"echo {WORD} && sleep 0.2", background=True), call("list_directory", path=".")],
    [call("no_such_tool", **{WORD: [WORD, {"deep": WORD}]}), call("search_files", pattern=WORD)],
    [{"text": f"Done with {WORD}."}],
]


def all_bytes(home: Path) -> Iterator[tuple[str, bytes]]:
    """Everything below a folder, unpacked; this goes by nothing that the command itself reads with."""
    for file in sorted(home.rglob("*")):
        if file.is_file():
            yield file.name, file.read_bytes()
    path = home / FOLDER / "constellation.db"
    yield from read_file(path, lambda tx: list(_values(tx)))
    for segment in sorted(path.parent.rglob("seg-*.jsonl")):
        for line in read_lines(segment, SegmentReading()):
            for value in _encoded(line):
                yield segment.name, _plain(value)


def _values(tx: Transaction) -> Iterator[tuple[str, bytes]]:
    for table in ordinary_tables(tx):
        for row in each_row(tx, table):
            for column, value in zip(columns_of(tx, table), row, strict=True):
                if isinstance(value, str | bytes):
                    yield f"{table}.{column}", _plain(value.encode() if isinstance(value, str) else value)


def _encoded(value: Json) -> Iterator[bytes]:
    match value:
        case {"b": str(encoded)}:
            yield base64.b64decode(encoded)
        case dict():
            yield from (found for each in value.values() for found in _encoded(each))
        case list():
            yield from (found for each in value for found in _encoded(each))
        case _:
            yield str(value).encode("utf-8", "surrogatepass")


def _plain(value: bytes) -> bytes:
    try:
        return unpack("zstd", value)
    except PackedError:
        return value


def holding(home: Path) -> set[str]:
    return {where for where, content in all_bytes(home) if WORD.encode() in content}


async def test_a_word_of_every_kind_of_work_is_gone_from_the_whole_folder(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (project / "big.txt").write_text("\n".join(str(number) for number in range(9000)), encoding="utf-8")
    script = write_script(tmp_path, TURNS)
    launch = Launch(home, environment=script, permission=choose("allow_always"))
    async with running_process(launch) as agent:
        session = await agent.editor.open_session(str(project))
        await agent.editor.prompt(session, f"Work with {WORD}, please.")
        for line in (f"/checkpoint {WORD}", f"/rename On {WORD}", f"/{WORD} now", "/diff"):
            await agent.editor.prompt(session, line)
        await agent.close_input()
        await agent.wait()
    before = holding(home)
    assert before >= {
        "events.payload",
        "blobs.content",
        "sessions.title",
        "search_entries.text",
        "file_contents.content",
        "grants.pattern",
    }
    done = run_command_line(home, "journal", "redact", session, "--match", WORD, "--yes")
    assert done.returncode == 0, done.stdout
    assert "the text is gone from all " in done.stdout
    assert holding(home) == set()
    verified = run_command_line(home, "journal", "verify")
    assert verified.returncode == 0, verified.stdout
    async with running_process(launch) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
        assert "I begin with [forgotten]." in agent.editor.said()
        await agent.editor.prompt(session, "/status")
        await agent.close_input()
        await agent.wait()
    again = run_command_line(home, "journal", "redact", session, "--match", WORD, "--yes", "--json")
    report = json.loads(again.stdout)
    assert (again.returncode, report["events"], report["gone"], report["left"]) == (0, 0, True, [])
    assert holding(home) == set()
