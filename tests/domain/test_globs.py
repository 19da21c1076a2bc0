import contextlib
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob, split_patterns
from pattern_acp.domain.paths import POSIX, WINDOWS


def matches(pattern: str, name: str) -> bool:
    return compile_glob(pattern, "/work", flavour=POSIX).matches(name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*.py", "a.py"),
        ("*.py", "src/deep/a.py"),
        ("src/*.py", "src/a.py"),
        ("/src/*.py", "src/a.py"),
        ("./src/*.py", "src/a.py"),
        ("/work/src/*.py", "src/a.py"),
        ("/work/**/*.py", "src/x/a.py"),
        ("src/**/*.py", "src/a.py"),
        ("src/**/*.py", "src/x/y/a.py"),
        ("**/test_*.py", "test_a.py"),
        ("src/", "src/x/y"),
        ("src/**", "src/x/y"),
        ("**", "any/thing"),
        ("*.{ts,tsx}", "a.tsx"),
        ("{src,tests}/**/*.py", "tests/a/b.py"),
        ("{a,{b,c}}.txt", "c.txt"),
        ("[abc].txt", "b.txt"),
        ("[!abc].txt", "d.txt"),
        ("[^abc].txt", "d.txt"),
        ("[]].txt", "].txt"),
        ("[0-9]*", "7up"),
        ("file?.txt", "file1.txt"),
        ("a[.txt", "a[.txt"),
        ("a{.txt", "a{.txt"),
        ("\\*.txt", "*.txt"),
        (".*", ".gitignore"),
        ("*", ".hidden"),
        ("!*.py", "a.txt"),
        ("a*b*c", "aXbYbc"),
        ("ünï*", "ünïcode"),
    ],
)
def test_a_pattern_selects_a_name(pattern: str, name: str):
    assert matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*.py", "a.pyc"),
        ("src/*.py", "src/x/a.py"),
        ("src/*.py", "lib/src/a.py"),
        ("src/**/*.py", "srcx/a.py"),
        ("a?b", "a/b"),
        ("a[!x]b", "a/b"),
        ("*.{ts,tsx}", "a.js"),
        ("[abc].txt", "d.txt"),
        ("!*.py", "src/a.py"),
        ("A.py", "a.py"),
        ("\\*.txt", "a.txt"),
    ],
)
def test_a_pattern_leaves_a_name_out(pattern: str, name: str):
    assert not matches(pattern, name)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("", [""]),
        ("a,b", ["a", "b"]),
        ("{a,{b,c}}/*.py,lib/", ["{a,{b,c}}/*.py", "lib/"]),
        ("{a,{b,c},d},{e,f}", ["{a,{b,c},d}", "{e,f}"]),
        ("a{b,c", ["a{b", "c"]),
        ("a}b,c", ["a}b", "c"]),
        ("{a,{b,c}", ["{a", "{b,c}"]),
    ],
)
def test_a_comma_in_braces_belongs_to_its_pattern(text: str, patterns: list[str]):
    assert list(split_patterns(text)) == patterns


def test_windows_patterns_may_use_backslashes():
    glob = compile_glob("C:\\Work\\src\\**\\*.py", "c:\\work", flavour=WINDOWS)
    assert glob.matches("src/x/a.py")
    assert compile_glob("src\\*.py", "c:\\work", flavour=WINDOWS).matches("src/a.py")


@pytest.mark.parametrize("pattern", ["", "  ", "/", "!", "**/" + "a/**/" * 8, "{a,b}" * 9])
def test_a_pattern_that_cannot_be_used_is_refused_in_a_sentence(pattern: str):
    with pytest.raises(WorkspaceError) as caught:
        matches(pattern, "a")
    assert caught.value.sentence.endswith(".")


def test_many_stars_take_no_time():
    began = time.perf_counter()
    assert not matches("*a" * 60 + "b", "a" * 250)
    assert time.perf_counter() - began < 10


parts = st.text("ab.*?", min_size=1, max_size=6).filter(lambda part: "**" not in part and part not in {".", ".."})


@given(parts, st.text("ab.", min_size=1, max_size=6))
def test_one_part_matches_as_the_standard_library_says(pattern: str, name: str):
    assert matches("/" + pattern, name) == fnmatchcase(name, pattern)


@given(st.text(max_size=20), st.text(min_size=1, max_size=20))
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str):
    with contextlib.suppress(WorkspaceError):
        matches(pattern, name)
