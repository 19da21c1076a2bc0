"""Slash commands complete."""

from pattern_acp.cli.chat.line_prompt import completions


def test_a_line_that_begins_with_a_slash_completes_to_commands():
    assert completions("/", ["status", "memory"]) == ["/memory ", "/quit ", "/status "]
    assert completions("/st", ["status", "memory"]) == ["/status "]
    assert completions("/x", ["status"]) == []


def test_other_lines_are_left_alone():
    assert completions("st", ["status"]) == []
    assert completions("", ["status"]) == []
