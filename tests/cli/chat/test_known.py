"""What the chat remembers of updates that show nothing."""

from pattern_acp.acp import schema
from pattern_acp.cli.chat.events import SessionInfo
from pattern_acp.cli.chat.screen import UNICODE
from pattern_acp.cli.chat.transcript import header_line


def options(mode: str, model: str) -> schema.ConfigOptionUpdate:
    return schema.ConfigOptionUpdate(
        config_options=tuple(
            schema.SelectConfigOption(id=name, name=name, current_value=value, options=())
            for name, value in (("mode", mode), ("model", model), ("thought_level", "high"))
        )
    )


def after(*updates: schema.SessionUpdate) -> SessionInfo:
    known = SessionInfo()
    for update in updates:
        known.take(update)
    return known


def test_options_tell_mode_and_model_and_the_newest_counts():
    known = after(options("ask", "a/b"), options("plan", "c/d"))
    assert (known.mode, known.model) == ("plan", "c/d")


def test_the_line_above_the_prompt_says_how_many_commands_run_in_the_background():
    known = after(options("ask", "a/b"))
    assert header_line(known, UNICODE).plain.endswith("mode ask · a/b")
    known.take(schema.SessionInfoUpdate(title="Mend it", meta={"pattern": {"backgroundJobs": 1}}))
    known.take(schema.SessionInfoUpdate(meta={"pattern": {"backgroundJobs": 2}}))
    assert known.title == "Mend it"
    assert header_line(known, UNICODE).plain.endswith("a/b · 2 in the background (/background)")
    known.take(schema.SessionInfoUpdate(meta={"pattern": {"backgroundJobs": 0}}))
    known.take(schema.SessionInfoUpdate(meta={"pattern": "theirs"}))
    known.take(schema.SessionInfoUpdate())
    assert known.background_jobs == 0


def test_a_change_of_mode_alone_leaves_the_model():
    known = after(options("ask", "a/b"), schema.CurrentModeUpdate(current_mode_id="auto"))
    assert (known.mode, known.model) == ("auto", "a/b")


def test_a_title_is_set_kept_and_cleared():
    titled = schema.SessionInfoUpdate(title="Fix it")
    assert after(titled).title == "Fix it"
    assert after(titled, schema.SessionInfoUpdate(updated_at="2026-11-28T00:00:00Z")).title == "Fix it"
    assert after(titled, schema.SessionInfoUpdate(title=None)).title == ""


def test_commands_plan_and_usage_are_replaced_whole():
    first = schema.AvailableCommand(name="help", description="Help")
    second = schema.AvailableCommand(name="memory", description="Memory")
    known = after(
        schema.AvailableCommandsUpdate(available_commands=(first,)),
        schema.AvailableCommandsUpdate(available_commands=(second,)),
        schema.UsageUpdate(used=1, size=10),
        schema.UsageUpdate(used=2, size=10),
    )
    assert known.commands == (second,)
    assert known.usage == schema.UsageUpdate(used=2, size=10)


def test_what_is_shown_is_not_remembered():
    shown = schema.AgentMessageChunk(content=schema.TextContent(text="Hello."))
    assert after(shown) == SessionInfo()
