"""Files that are written through a session are noted as they were left."""

from collections.abc import Sequence

import anyio

from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.workspace.files import TextFile
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.snapshots import AFTER_SECONDS, TrackedFiles
from tests.support.agent import running_agent


class SlowDisk(Checkpoints):
    """Checkpoints that need longer for a look at a file than a cancelled call has."""

    noted = False

    async def after_change(self, paths: Sequence[str]) -> None:
        with anyio.move_on_after(AFTER_SECONDS + 0.1):
            await anyio.sleep_forever()
        await super().after_change(paths)
        self.noted = True


class Writing(LocalFileSystem):
    """Files that say when one was written, and then wait."""

    def __init__(self) -> None:
        super().__init__()
        self.written = anyio.Event()

    async def write_text_file(self, path: str, text: str) -> TextFile:
        await super().write_text_file(path, text)
        self.written.set()
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_write_is_noted_however_long_the_look_at_the_file_takes():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        disk = SlowDisk(agent.sessions.get(session).checkpoints.scope)
        await TrackedFiles(LocalFileSystem(), disk).write_text_file(str(agent.folder / "a.txt"), "new\n")
        assert disk.noted


async def test_a_cancelled_write_does_not_wait_for_a_slow_look_at_the_file():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        disk, inner = SlowDisk(agent.sessions.get(session).checkpoints.scope), Writing()
        path = str(agent.folder / "a.txt")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(TrackedFiles(inner, disk).write_text_file, path, "new\n")
            await inner.written.wait()
            tasks.cancel_scope.cancel()
        assert not disk.noted
        assert await anyio.Path(path).read_text(encoding="utf-8") == "new\n"
