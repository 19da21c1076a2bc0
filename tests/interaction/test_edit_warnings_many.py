"""More traps about a file than are told, in a small window: an edit is held once, never for good."""

from msgspec.structs import replace

from pattern_acp.config.settings import Settings
from pattern_acp.journal.events import ToolCallFinished
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, last_result, of_type
from tests.support.window_model import WindowModel

WINDOW = 14_000
SETTINGS = Settings(editor_deadline_seconds=30, mode="auto")


class Stubborn:
    """Sends the same edit until it is done."""

    def __init__(self) -> None:
        self.sent = 0

    def answer(self, request: ProviderRequest) -> Turn:
        if (self.sent and not last_result(request).is_error) or self.sent > 20:
            return says("Done.")
        self.sent += 1
        return calls("write_file", path="a.sql", content="x\n")


async def test_an_edit_that_is_sent_again_is_done_however_much_is_noted_about_its_file():
    model = WindowModel(WINDOW, (stubborn := Stubborn()).answer)
    async with running_agent(ScriptedProvider([]), settings=SETTINGS, others={"scripted": model}) as agent:
        info = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(info, context_window=WINDOW, max_output_tokens=1_000)
        session = await agent.editor.open_session(str(agent.folder))
        for number in range(14):
            text = " ".join(f"w{number}x{word}" for word in range(150))
            await agent.editor.prompt(session, f"/memory trap {text} --paths *.sql")
        await agent.editor.prompt(session, "Go.")
        events = await events_of(agent, session)
        told, _done = of_type(events, ToolCallFinished)
        assert "3 of 14 things" in told.result_text
        assert stubborn.sent == 2
