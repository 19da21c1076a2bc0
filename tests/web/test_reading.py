"""Bodies as text, HTML as Markdown."""

import pytest

from pattern_acp.web import is_html, is_text, markdown_of, text_of

PAGE = """<!doctype html><html><head><title> The  title </title><style>p {}</style></head><body>
<nav><a href="/home">Home</a></nav><script>alert(1)</script>
<main><h1>Hello</h1><p>Some <b>bold</b> words and a <a href="../x?y=1">link</a>.</p>
<pre><code class="language-py">a = 1
b = 2</code></pre><ul><li>one</li><li>two</li></ul>
<img src="data:image/png;base64,AA" alt="dot"><img src="a.png" alt="A">
<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>
<p>%s</p></main><footer>Imprint</footer></body></html>"""


def test_the_main_part_of_a_page_becomes_markdown():
    title, text = markdown_of(PAGE % ("long " * 60), "https://example.com/a/b/c")
    assert title == "The title"
    assert text.startswith("# Hello\n\nSome **bold** words and a [link](https://example.com/a/x?y=1).")
    assert "a = 1\nb = 2" in text
    assert "- one\n- two" in text
    assert "| 1 | 2 |" in text
    assert "![A](https://example.com/a/b/a.png)" in text
    for unseen in ("alert", "Imprint", "Home", "p {}", "data:image"):
        assert unseen not in text


def test_a_page_without_a_main_part_is_read_whole_unless_it_is_nothing_but_its_surroundings():
    _, text = markdown_of(f"<nav>Menu</nav><p>{'word ' * 60}</p>", "http://a/")
    assert "Menu" not in text
    _, text = markdown_of("<nav>Menu</nav>", "http://a/")
    assert text == "Menu"
    assert markdown_of("", "http://a/") == ("", "")


def test_a_page_that_nests_without_end_is_still_read():
    _, text = markdown_of("<div>" * 20_000 + "deep", "http://a/")
    assert text == "deep"


def test_a_link_that_is_no_url_stays():
    assert markdown_of("<a href='http://[bad'>x</a>", "http://a/")[1] == "[x](http://[bad)"


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("grün".encode(), "", "grün"),
        ("grün".encode(), "utf-8", "grün"),
        ("grün".encode("latin-1"), "iso-8859-1", "grün"),
        ("grün".encode("latin-1"), "utf-8", "grün"),
        ("grün".encode(), "no-such-charset", "grün"),
        ("grün".encode(), "zip", "grün"),
        ("grün".encode("utf-16"), "", "grün"),
        ("grün".encode("utf-8-sig"), "latin-1", "grün"),
        ('<meta charset="windows-1251">мир'.encode("cp1251"), "", '<meta charset="windows-1251">мир'),
        (b"\xff\xfa\x81", "", "ÿú\ufffd"),
    ],
)
def test_text_is_read_in_the_charset_that_it_has_rather_than_the_one_it_claims(body: bytes, charset: str, text: str):
    assert text_of(body, charset) == text


def test_types_are_told_apart():
    assert is_html("text/html", b"")
    assert is_html("", b" <!DOCTYPE html>")
    assert not is_html("text/plain", b"<html>")
    assert is_text("application/vnd.api+json", b"")
    assert is_text("", b"plain")
    assert not is_text("", b"a\0b")
    assert not is_text("application/pdf", b"%PDF")
