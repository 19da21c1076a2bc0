"""Makes the constellation of a version that is kept for later ones: `python -m tests.journal.make_fixture`.

Run once, when a version is released; what it writes is never changed afterwards. The machine's name does not stay.
"""

import gzip
import tempfile
from pathlib import Path

import anyio

from pattern_acp import __version__
from pattern_acp.db.connection import change_file, rewrite_in_place
from pattern_acp.db.migrate import load_migrations
from tests.support.editor import JsonDict
from tests.support.process import Launch, running_process, write_script

FIXTURES = Path(__file__).parent / "fixtures"
HOLDER = "UPDATE leases SET host = 'host', pid = 1, process_started = ''"

SCRIPT: list[list[dict[str, object]]] = [
    [
        {"thinking": "A plan first."},
        {"text": "I write it down."},
        {"tool": "write_file", "arguments": {"path": "plum.txt", "content": "a plum\n"}},
        {"tool": "memory_write", "arguments": {"label": "human", "operation": "append", "text": "Likes plums."}},
    ],
    [{"text": "Written."}],
    [{"tool": "read_file", "arguments": {"path": "nowhere.txt"}}],
    [{"text": "It is not there."}],
    [{"text": "pear " * 8000}],
    [{"text": "After going back."}],
    [{"text": "In the fork."}],
]


async def make(target: Path) -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as scratch:
        home, project = Path(scratch) / "home", Path(scratch) / "project"
        project.mkdir()
        environment = write_script(Path(scratch), SCRIPT)
        async with running_process(Launch(home, environment=environment)) as agent:
            editor = agent.editor
            session = await editor.open_session(str(project))
            for text in (
                "Write of a plum.",
                "/rename Plums",
                "Read what is not there.",
                "Say much.",
                "/checkpoint ripe",
            ):
                await editor.prompt(session, text)
            await editor.prompt(session, "/rewind 3 conversation yes")
            await editor.prompt(session, "Go on.")
            where: JsonDict = {"cwd": str(project), "mcpServers": []}
            forked = await editor.request("_pattern/session/fork", {"sessionId": session, "turn": 2, **where})
            await editor.request("session/load", {"sessionId": forked["sessionId"], **where})
            await editor.prompt(str(forked["sessionId"]), "Go on in the fork.")
            deleted = await editor.open_session(str(project))
            await editor.prompt(deleted, "/remember Figs are ripe in August.")
            await editor.request("session/delete", {"sessionId": deleted})
            await agent.close_input()
            await agent.wait()
        pack(home, target)


def pack(home: Path, target: Path) -> None:
    """Take the constellation of a home."""
    [path] = home.rglob("constellation.db")
    change_file(path, lambda tx: tx.execute(HOLDER))
    rewrite_in_place(path)
    target.write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    anyio.run(make, FIXTURES / f"{__version__}-schema-{load_migrations()[-1].version}.db.gz")
