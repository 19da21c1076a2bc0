"""A replay by another program than the recorded one says where it differs first."""

from collections.abc import Callable

import pytest
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.cli.journal import Replayed, current_means
from pattern_acp.cli.rendering import plain
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import Message, Role, TextPart, ToolResultPart
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.journal.events import Event, ModelRequested, ToolCallFinished
from pattern_acp.journal.history import read_history
from pattern_acp.journal.reader import Recorded
from pattern_acp.providers.base import ProviderRequest, ToolSpec
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import ReplayServices, TurnDifference, TurnsReport, replay_turns
from pattern_acp.replay.turn_replay import CurrentComposition, RequestInputs
from pattern_acp.session.session_row_rebuild import ReplayReport
from pattern_acp.tools.base import PreparedCall, Tool, ToolContext
from tests.support.agent import running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says


class OtherComposition(Struct, frozen=True):
    """The program's own composition, with something done to each request."""

    change: Callable[[ProviderRequest], ProviderRequest]

    def request(self, given: RequestInputs) -> ProviderRequest:
        return self.change(CurrentComposition(current_means().tools).request(given))


class OtherTool(Struct, frozen=True):
    """A tool with another description."""

    tool: Tool

    @property
    def spec(self) -> ToolSpec:
        return replace(self.tool.spec, description="Reads.")

    @property
    def kind(self) -> ToolKind:
        return self.tool.kind

    @property
    def changes_things(self) -> bool:
        return self.tool.changes_things

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext, /) -> PreparedCall:
        return await self.tool.prepare(arguments, call_id, context)


class Session(Struct, frozen=True):
    session_id: str
    recorded: list[Recorded]

    def changed(self, change: Callable[[Event], Event]) -> "Session":
        return replace(self, recorded=[replace(entry, event=change(entry.event)) for entry in self.recorded])

    async def replayed(self, means: ReplayServices) -> TurnsReport:
        return await replay_turns(self.session_id, self.recorded, means)


async def recorded_session() -> Session:
    model = ScriptedProvider(
        [says("Hello."), calls("read_file", path="a.txt") + calls("run_command", command="touch x"), says("Done.")]
    )
    async with running_agent(model, permission=choose("reject_once")) as agent:
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello?")
        await agent.editor.prompt(session, "Read it.")

        def read(tx: Transaction) -> list[Recorded]:
            return read_history(tx, session)

        return Session(session, await agent.database.read(read))


async def difference(means: ReplayServices, session: Session | None = None) -> TurnDifference:
    report = await (session or await recorded_session()).replayed(means)
    assert report.difference is not None
    return report.difference


def where(found: TurnDifference) -> tuple[int, int, str]:
    return found.turn, found.request, found.part


def with_composition(change: Callable[[ProviderRequest], ProviderRequest]) -> ReplayServices:
    return replace(current_means(), composition=OtherComposition(change))


async def test_another_system_prompt_is_found_in_the_first_request():
    means = with_composition(lambda request: replace(request, system=f"{request.system}\nBe brief."))
    found = await difference(means)
    assert where(found) == (1, 1, "system")
    lines = plain(Replayed("ses_1", ReplayReport(1, 1, 1), TurnsReport(1, 1, 0, found)).document).splitlines()
    assert lines[1] == "ses_1  DIFFERS in turn 1, request 1: system"
    assert "  +Be brief." in lines
    assert not any(line.startswith("  -") and not line.startswith("  ---") for line in lines)


async def test_another_description_of_a_tool_is_found_with_its_name():
    tools = tuple(OtherTool(tool) if tool.spec.name == "read_file" else tool for tool in current_means().tools)
    means = replace(current_means(), tools=tools, composition=CurrentComposition(tools))
    found = await difference(means)
    assert where(found) == (1, 1, "tools")
    assert "== read_file\nReads.\n" in found.replayed
    assert "== read_file\nReads.\n" not in found.recorded


async def test_a_tool_that_is_new_or_gone_is_found():
    means = with_composition(lambda request: replace(request, tools=request.tools[:-1]))
    assert where(await difference(means)) == (1, 1, "tools")


async def test_other_words_of_a_result_are_found_in_the_message_that_brings_them():
    def shouting(message: Message) -> Message:
        parts = (
            replace(part, text=part.text.upper()) if isinstance(part, ToolResultPart) else part
            for part in message.parts
        )
        return replace(message, parts=tuple(parts))

    means = with_composition(lambda request: replace(request, messages=tuple(map(shouting, request.messages))))
    found = await difference(means)
    turn, request, part = where(found)
    assert (turn, request) == (2, 2)
    assert part.startswith("message ")
    assert "hello" in found.recorded
    assert "HELLO" in found.replayed


async def test_a_message_too_many_and_one_too_few_are_found():
    added = Message(MessageId("m"), Role.USER, (TextPart("More."),))
    more = with_composition(lambda request: replace(request, messages=(*request.messages, added)))
    found = await difference(more)
    assert (found.recorded, "More." in found.replayed) == ("(nothing)", True)
    fewer = with_composition(lambda request: replace(request, messages=request.messages[:-1]))
    found = await difference(fewer)
    assert found.replayed == "(nothing)"


def other_volatile(request: ProviderRequest) -> ProviderRequest:
    return replace(request, volatile="Other.")


def shorter_answers(request: ProviderRequest) -> ProviderRequest:
    return replace(request, max_output_tokens=5)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (other_volatile, "volatile"),
        (shorter_answers, "settings"),
    ],
)
async def test_what_stands_behind_messages_and_settings_are_compared(
    change: Callable[[ProviderRequest], ProviderRequest], part: str
):
    assert where(await difference(with_composition(change))) == (1, 1, part)


async def test_what_a_refusal_says_now_is_compared_with_what_it_said():
    def said(event: Event) -> Event:
        refused = isinstance(event, ToolCallFinished) and event.result_text.startswith("The user refused")
        return replace(event, result_text="No, said the user.") if refused else event

    found = await difference(current_means(), (await recorded_session()).changed(said))
    assert (found.turn, found.request) == (2, 1)
    assert found.part == "the end of call call_2, as it is recorded"
    assert "No, said the user." in found.recorded
    assert "The user refused this call." in found.replayed


async def test_a_session_that_was_recorded_before_parts_were_says_what_is_not_compared():
    def without_parts(event: Event) -> Event:
        return replace(event, parts=None) if isinstance(event, ModelRequested) else event

    session = (await recorded_session()).changed(without_parts)
    report = await session.replayed(with_composition(lambda request: replace(request, system="Other.")))
    assert report.difference is None
    assert report.not_compared == (
        "requests of a version that recorded no parts of them, of which only the number of messages is compared: 3",
    )
    fewer = with_composition(lambda request: replace(request, messages=request.messages[1:]))
    assert (await difference(fewer, session)).part == "the number of messages"
