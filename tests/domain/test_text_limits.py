from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.text_limits import (
    cut_line,
    cut_middle,
    fenced,
    numbered,
    one_line,
    plain_output,
    plural,
    short_diff,
    with_visible_characters,
)


def test_text_that_fits_is_left_alone():
    assert cut_middle("short", 5).text == "short"


def test_the_beginning_and_the_end_are_kept_and_the_bytes_between_are_counted():
    text = "".join(f"line {number:03}\n" for number in range(200))
    cut = cut_middle(text, 300)
    head, marker, tail = cut.text.partition(f"\n[... {cut.bytes_cut:,} bytes cut ...]\n")
    assert marker
    assert head.startswith("line 000\nline 001\n")
    assert tail.endswith("line 198\nline 199\n")
    assert len(text.encode()) == cut.bytes_cut + len(head) + 1 + len(tail)


@given(st.text(), st.integers(min_value=0, max_value=200))
def test_a_cut_text_never_exceeds_its_limit(text: str, limit: int):
    assert len(cut_middle(text, limit).text) <= limit


@given(st.text(min_size=100), st.integers(min_value=70, max_value=99))
def test_what_is_left_out_is_counted_in_bytes(text: str, limit: int):
    cut = cut_middle(text, limit)
    kept = cut.text.replace(f"\n[... {cut.bytes_cut:,} bytes cut ...]\n", "", 1)
    missing = len(text.encode("utf-8", "surrogatepass")) - len(kept.encode("utf-8", "surrogatepass"))
    assert cut.bytes_cut - missing in {0, -1, 1}


def test_a_long_line_says_how_much_is_left_out():
    assert cut_line("abcdef", 4) == "abcd [... 2 characters cut]"
    assert cut_line("abcd", 4) == "abcd"


def test_a_title_is_one_line():
    assert one_line("make\n  test\n") == "make ↵ test"


def test_nothing_hides_in_a_title():
    assert one_line("echo \u202e\x1b[2K") == "echo \\u202e\\u001b[2K"


def test_a_long_title_is_cut():
    assert one_line("x" * 10, 5) == "xxxx…"


def test_escape_sequences_and_overwritten_lines_are_left_out():
    assert plain_output("\x1b[31mred\x1b[0m\r\n10%\r50%\r100%\r\ndone") == "red\n100%\ndone"
    assert plain_output("\x1b]0;title\x07text") == "text"


def test_lines_carry_their_numbers():
    assert numbered(["a", "b"], 9) == "9\ta\n10\tb"


def test_a_short_diff_shows_what_changed():
    assert short_diff("a\nb\n", "a\nc\n").splitlines()[2:] == ["@@ -1,2 +1,2 @@", " a", "-b", "+c"]


def test_counts_agree_with_their_words():
    assert [plural(1, "file"), plural(2, "file"), plural(2, "entry", "entries")] == ["1 file", "2 files", "2 entries"]


def test_a_fence_is_longer_than_any_inside():
    assert fenced("a ``` b", "sh") == "````sh\na ``` b\n````"


def test_a_joined_emoji_stays_one_and_a_joiner_elsewhere_is_spelled_out():
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert one_line(f"for {family}") == f"for {family}"
    assert one_line("rm\u200d -rf\u200d") == "rm\\u200d -rf\\u200d"


def test_text_keeps_its_lines_and_hides_nothing_in_them():
    assert with_visible_characters("a\tb\n\u202ec\x9b\ud800") == "a\tb\n\\u202ec\\u009b\\ud800"


def test_a_shown_name_stays_the_same_when_it_is_shown_again():
    shown = one_line("a\n\u202eb\x1b")
    assert one_line(shown) == shown
