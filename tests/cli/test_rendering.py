"""Answers as lines of a terminal, and in a pipe."""

from pattern_acp.cli.rendering import coloured, lines_of, pager_command, plain
from pattern_acp.commands.document import Column, Diff, Paragraph, Table


def test_an_answer_is_plain_for_a_pipe_and_coloured_for_a_terminal():
    table = Table((Column("A", "red"), Column("B")), (("x\ny", "z\x1b[2J"),))
    parts = (table, Diff("", "new"), Paragraph("`/memory help` tells."))
    assert plain(parts).splitlines() == [
        *("A    B", "x y  z[2J", "---", "+++", "@@ -0,0 +1 @@", "+new", "pattern-acp memory --help tells.")
    ]
    shown = coloured(lines_of(parts, 80), 80)
    assert "\x1b[31mx y" in shown
    assert "\x1b[2J" not in shown


def test_the_pager_is_the_persons_or_less_or_none():
    assert pager_command({"PAGER": "more -s"}) == ["more", "-s"]
    assert pager_command({"PAGER": ""}) is None
    assert pager_command({"PAGER": "cat"}) is None
    assert pager_command({"PATH": "/nowhere"}) is None
