"""How many functions of ours a request enters: `python benchmarks/functions.py`, in the root of the repository.

Owns: counting distinct functions of `pattern_acp`, and the deepest stack of them, for requests to an agent in this
process with a scripted model. Must not know: time. Editor and model are the fakes of the tests and are not counted.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pattern_acp.acp.client import FLUSH_SECONDS  # noqa: E402  the repository is put on the path first
from pattern_acp.providers.scripted import ScriptedProvider  # noqa: E402  the repository is put on the path first
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent  # noqa: E402
from tests.support.scripts import calls, says  # noqa: E402

OURS = str(ROOT / "pattern_acp")


class Counter:
    """Functions entered until `stop`, and those until the editor has its first update."""

    def __init__(self, updates: list[dict[str, object]]) -> None:
        self._updates = updates
        self._before = len(updates)
        self.functions: set[CodeType] = set()
        self.before_first_update = 0
        self.deepest = 0

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """A profile function, as `sys.setprofile` takes it."""
        if event != "call" or not frame.f_code.co_filename.startswith(OURS):
            return
        if not self.before_first_update and len(self._updates) > self._before:
            self.before_first_update = len(self.functions)
        self.functions.add(frame.f_code)
        depth, above = 0, frame
        while above is not None:
            depth += above.f_code.co_filename.startswith(OURS)
            above = above.f_back
        self.deepest = max(self.deepest, depth)


async def count(agent: RunningAgent, name: str, request: Callable[[], Awaitable[object]]) -> None:
    """Send a request and print what it entered, once the editor may be sent text at once again."""
    await anyio.sleep(4 * FLUSH_SECONDS)
    counter = Counter(agent.editor.updates)
    sys.setprofile(counter.note)
    try:
        await request()
    finally:
        sys.setprofile(None)
    modules = len({code.co_filename for code in counter.functions})
    print(
        f"{name:25} {len(counter.functions):5} functions in {modules:3} modules, "
        f"{counter.before_first_update or len(counter.functions):4} before the first update, "
        f"deepest stack {counter.deepest}"
    )


async def main() -> None:
    """Run each kind of request once, after a first turn that imports what is imported late."""
    answers = [*[says("Hello.")] * 4, calls("read_file", path="a.txt"), says("Read."), says("Hello.")]
    async with running_agent(ScriptedProvider(answers), capabilities=FULL_CLIENT) as agent:
        path = str(agent.folder / "a.txt")
        agent.editor.files[path] = "hello\n"
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "say hello")
        await agent.editor.prompt(session, "/remember first")
        await count(agent, "say hello, memory changed", lambda: agent.editor.prompt(session, "say hello"))
        await agent.editor.prompt(session, "say hello")
        await count(agent, "say hello", lambda: agent.editor.prompt(session, "say hello"))
        await count(agent, "a prompt with one read", lambda: agent.editor.prompt(session, "read a.txt"))
        await count(agent, "/remember", lambda: agent.editor.prompt(session, "/remember that tests run with pytest"))
        load: dict[str, object] = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await count(agent, "session/load", lambda: agent.editor.request("session/load", load))


if __name__ == "__main__":
    anyio.run(main)
