"""What breaks the cached prefix, in words."""

from msgspec.structs import replace

from pattern_acp.context.window import BreakDetector
from pattern_acp.providers.base import ToolForm
from tests.support.conversations import request, user


def test_tools_that_are_called_in_another_form_break_the_prefix_where_that_changes_anything():
    detector, first = BreakDetector(), request(user("a"))
    as_text = replace(first, tool_form=ToolForm.TEXT)
    assert detector.saw(first) == ""
    assert detector.saw(as_text) == "tools (now as text)"
    assert detector.saw(replace(first, tool_form=ToolForm.NATIVE)) == "tools (now native)"
    assert detector.saw(first) == ""
    # A model that has no native calls got them as text before.
    assert detector.saw(first, calls_tools=False) == ""
    assert detector.saw(as_text, calls_tools=False) == ""


def test_how_long_ago_the_last_break_was_is_told():
    detector = BreakDetector()
    for model in ("one", "two"):
        detector.saw(request(user("a"), model=model))
    assert detector.summary() == "broken once in 2 requests, in the last one: model"
    detector.saw(request(user("a"), model="two"))
    assert detector.summary() == "broken once in 3 requests, one request ago: model"
    detector.saw(request(user("a"), model="two"))
    assert detector.summary() == "broken once in 4 requests, 2 requests ago: model"
