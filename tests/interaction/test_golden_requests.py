"""What a model is sent for ten typical prompts, without the system prompt and the tools. A change here changes how
models work; `scripts/test tests/interaction/test_golden_requests.py --inline-snapshot=fix` takes it over."""

import re
import time
from collections.abc import Awaitable, Callable

import pytest
from inline_snapshot import external_file

from pattern_acp.config.settings import MemorySettings, Settings
from pattern_acp.domain.messages import ResourcePart, TextPart, ToolCallPart, ToolResultPart
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.passing_time import PassingClock
from tests.support.scripts import Turn, calls, says

DAY_MS = 86_400_000
SETTINGS = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(recall_tokens=0))
"""Nothing is recalled: what is, and how it ranks, is tested elsewhere."""


class SetClock(PassingClock):
    """A clock whose time of day is set."""

    at_ms = int(time.mktime((2026, 11, 27, 12, 0, 0, 0, 0, -1)) * 1000)

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self.at_ms


Act = Callable[[RunningAgent, str], Awaitable[object]]


def prompts(*texts: str) -> Act:
    async def act(agent: RunningAgent, session: str) -> None:
        for text in texts:
            await agent.editor.prompt(session, text)

    return act


async def in_plan_mode(agent: RunningAgent, session: str) -> None:
    await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
    await agent.editor.prompt(session, "How would you split it?")


async def on_the_next_day(agent: RunningAgent, session: str) -> None:
    await agent.editor.prompt(session, "Write the parser.")
    await agent.editor.request("session/close", {"sessionId": session})
    clock = agent.shared.clock = SetClock()
    clock.at_ms += DAY_MS
    await agent.editor.prompt(await agent.editor.open_session(str(agent.folder)), "What is left to do on the parser?")


async def with_instructions(agent: RunningAgent, session: str) -> None:
    (agent.folder / "src").mkdir()
    (agent.folder / "src" / "AGENTS.md").write_text("Use tabs.\n", encoding="utf-8")
    (agent.folder / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
    await agent.editor.prompt(session, "What is in src/a.py?")


WRITE = calls("write_file", path="parser.py", content="def parse(): ...\n")
CASES: dict[str, tuple[list[Turn], Act]] = {
    "greeting": ([says("Hello.")], prompts("Hello!")),
    "question about a file": ([calls("read_file", path="parser.py"), says("It parses.")], prompts("What does it do?")),
    "file in the prompt": ([says("It has one line.")], prompts("Explain @notes.txt")),
    "edit": ([WRITE, says("Done.")], prompts("Write the parser.")),
    "follow-up": ([says("A parser."), says("In Python.")], prompts("What is this?", "In which language?")),
    "remembered": (
        [calls("memory_write", label="human", operation="append", text="Likes tea."), says("Noted."), says("Tea.")],
        prompts("I like tea, remember that.", "What do I like?"),
    ),
    "plan mode": ([says("In two.")], in_plan_mode),
    "folder with instructions": ([calls("read_file", path="src/a.py"), says("One line.")], with_instructions),
    "the next day": ([WRITE, calls("run_command", command="false"), says("Written."), says("Tests.")], on_the_next_day),
    "compacted": (
        [says("One. " * 200), says("Two. " * 200), says("## Done\n- Counted."), says("Three.")],
        prompts("Count to one.", "Count to two.", "/compact", "Go on."),
    ),
}


def text_of(request: ProviderRequest, folder: str) -> str:
    lines: list[str] = []
    for message in request.messages:
        for part in message.parts:
            match part:
                case TextPart(text) if text.startswith("<memory>"):
                    lines.append("[memory, before the first prompt]")
                case TextPart(text):
                    lines.append(f"[{message.role.value}] {text.strip()}")
                case ToolCallPart(_, name, arguments):
                    lines.append(f"[call] {name} {arguments}")
                case ToolResultPart(_, text):
                    lines.append(f"[result] {text.strip()}")
                case ResourcePart():
                    lines.append(f"[file] {part.name}: {(part.text or '').strip()}")
                case _:
                    lines.append(f"[{type(part).__name__}]")
    lines.append(f"[volatile] {request.volatile}")
    text = "\n".join(lines).replace(folder, "/project")
    text = re.sub(r"UTC[+-]\d\d:\d\d", "UTC+00:00", re.sub(r"after \d+\.\d s", "after 0.0 s", text))
    return re.sub(r"\b([a-z]{3,4})_[0-9a-f]{32}", r"\1_1", text)


@pytest.mark.parametrize("name", CASES)
async def test_the_last_request_of_a_typical_prompt_is_this(name: str):
    turns, act = CASES[name]
    async with running_agent(ScriptedProvider(turns), settings=SETTINGS) as agent:
        agent.shared.clock = SetClock()
        (agent.folder / "notes.txt").write_text("Milk.\n", encoding="utf-8")
        if name == "question about a file":
            (agent.folder / "parser.py").write_text("def parse(): ...\n", encoding="utf-8")
        await act(agent, await agent.editor.open_session(str(agent.folder)))
        text = text_of(agent.model.requests[-1], str(agent.folder))
    assert f"{text}\n" == external_file(f"golden/{name.replace(' ', '_')}.md", format=".txt")
