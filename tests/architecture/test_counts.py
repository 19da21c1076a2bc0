"""Counts in sentences: one thing is not called several."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "pattern_acp"

PLURAL = re.compile(r"""\}\s more\s (?:\w+\s)?\w+s\b""", re.VERBOSE)
"""A number in an f-string with `more things` behind it; `domain.text_limits.plural` says `1 more thing`, too."""


def test_whatever_is_left_out_is_counted_in_the_right_number():
    sources = sorted(ROOT.rglob("*.py"))
    wrong = [f"{path.name}: {found[0]}" for path in sources for found in PLURAL.finditer(path.read_text("utf-8"))]
    assert wrong == []
