"""The exported page shows everything and runs nothing."""

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, Role, TextPart, ThinkingPart
from pattern_acp.domain.tool_calls import (
    DiffContent,
    ImageContent,
    LinkContent,
    Plan,
    PlanEntry,
    PlanStatus,
    TerminalContent,
    TextContent,
    ToolCallStatus,
)
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal import events
from pattern_acp.journal.events import Event
from pattern_acp.journal.reader import Recorded
from pattern_acp.session.transcript import conversation_html, conversation_markdown

TURN = TurnId("t")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def page(*said: Event) -> str:
    recorded = [Recorded(n, n, 0, Actor.HUMAN, Origin.PERSON, "", event) for n, event in enumerate(said, 1)]
    return conversation_html(recorded, title=EVIL, about=[("Folder", EVIL)])


def answer(text: str) -> Event:
    parts = (ThinkingPart(EVIL), TextPart(text))
    return events.MessageRecorded(TURN, Message(MessageId("m"), Role.ASSISTANT, parts))


def test_nothing_that_was_said_becomes_a_tag_that_runs():
    image = ImagePart("text/html", "x", EVIL)
    prompt = Message(MessageId("u"), Role.USER, (TextPart(EVIL), ResourcePart("file:///a", EVIL), image))
    content = (
        TextContent(EVIL),
        DiffContent("/a" + EVIL, None, EVIL),
        TerminalContent("term", EVIL, "/w", EVIL),
        ImageContent("image/png", EVIL),
        LinkContent("javascript:alert(1)", EVIL, EVIL),
    )
    call = events.ToolCallFinished(TURN, ToolCallId("c"), ToolCallStatus.FAILED, EVIL, content, title=EVIL)
    html = page(events.TurnStarted(TURN, prompt), answer(EVIL), call, events.ErrorReported(TURN, "x", EVIL))
    assert "<script" not in html
    assert "<img" not in html
    assert "default-src 'none'" in html
    assert html.count("&lt;script&gt;alert(1)") >= 10


def test_links_that_run_and_pictures_from_elsewhere_are_no_links():
    text = "[a](javascript:alert(1)) [b](data:text/html,x) ![c](https://example.com/p.png) [d](https://example.com)"
    html = page(answer(text))
    assert 'href="javascript' not in html
    assert 'href="data:' not in html
    assert "<img" not in html
    assert 'href="https://example.com"' in html


def test_pictures_of_the_prompt_tokens_and_cost_are_shown():
    prompt = Message(MessageId("u"), Role.USER, (ImagePart("image/png", "iVBORw0KGgo="),))
    used = events.UsageReported(TURN, Usage(input_tokens=5, output_tokens=7), 12, 100, Cost(2_000_000, "USD"))
    html = page(events.TurnStarted(TURN, prompt), used, events.HistoryCleared(TURN))
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in html
    assert "2.00 USD" in html
    assert "was cleared" in html


def test_a_plan_is_a_list_that_shows_how_far_it_is():
    entries = (PlanEntry("Look <b>", status=PlanStatus.COMPLETED), PlanEntry("Mend", status=PlanStatus.IN_PROGRESS))
    html = page(events.PlanUpdated(TURN, Plan(entries)))
    assert '<li class="completed">Look &lt;b&gt;</li><li class="in_progress">Mend</li>' in html


def test_control_characters_that_a_command_printed_are_signs_in_both_exports():
    printed = TextContent("a\x00b\x07\tc\nd")
    call = events.ToolCallFinished(TURN, ToolCallId("c"), ToolCallStatus.COMPLETED, "", (printed,), title="x\x01")
    recorded = [Recorded(1, 1, 0, Actor.HUMAN, Origin.PERSON, "", call)]
    for made in (page(call), conversation_markdown(recorded, title="T", about=())):
        assert "a\u2400b\u2407\tc\nd" in made
        assert not {chr(code) for code in range(32)} - set("\t\n") & set(made)
