import importlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pattern_acp
from pattern_acp.domain.late_pattern import late_pattern

PACKAGE = Path(pattern_acp.__file__).parent


@given(st.text("ab1-", max_size=8))
def test_a_late_pattern_finds_what_a_compiled_one_finds(text: str):
    late, compiled = late_pattern("(A+)-?", re.IGNORECASE), re.compile("(A+)-?", re.IGNORECASE)
    assert late.findall(text) == compiled.findall(text)
    assert late.sub("x", text) == compiled.sub("x", text)
    assert (late.pattern, late.flags) == (compiled.pattern, compiled.flags)


def test_bytes_are_matched_by_bytes():
    assert late_pattern(rb"\d+").search(b"port 8080") is not None


def test_a_method_is_looked_up_once():
    late = late_pattern("a")
    assert late.match is late.match


def test_a_mistake_shows_at_the_first_use():
    late = late_pattern("(")
    with pytest.raises(re.error):
        late.match("(")


def modules_with_late_patterns() -> list[str]:
    paths = (path for path in PACKAGE.rglob("*.py") if " = late_pattern(" in path.read_text(encoding="utf-8"))
    return sorted(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths)


@pytest.mark.parametrize("name", modules_with_late_patterns())
def test_every_late_pattern_compiles(name: str):
    constants = vars(importlib.import_module(name)).values()
    late = [each for each in constants if type(each) is type(late_pattern(""))]
    assert late
    for each in late:
        re.compile(each.pattern, each.flags)
