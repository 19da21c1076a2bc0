"""Long texts of a prompt are shortened on the way to the model, with a way to read the rest."""

from operator import is_

from pattern_acp.context.builder import WHOLE_CHARACTERS, ShortenedTexts, long_text, with_shortened
from pattern_acp.domain.messages import ResourcePart, TextPart
from tests.support.conversations import PIXEL, assistant, user


def test_what_fits_is_sent_as_it_is():
    messages = (user("x" * WHOLE_CHARACTERS, PIXEL), assistant("y" * WHOLE_CHARACTERS * 2))
    assert with_shortened(messages) == messages


def test_of_a_long_text_both_ends_are_sent_and_a_marker_says_how_to_read_the_rest():
    paste = "".join(f"line {number}\n" for number in range(20_000))
    message = user("Look.", ResourcePart("a:b", "b", paste))
    (short,) = with_shortened([message])
    assert short.parts[0] == TextPart("Look.")
    resource = short.parts[1]
    assert isinstance(resource, ResourcePart)
    assert resource.text is not None
    assert len(resource.text) < WHOLE_CHARACTERS
    assert resource.text.startswith("line 0\n")
    assert resource.text.endswith("line 19999\n")
    assert "read_attachment with id user_1.1 and start 30000" in resource.text
    assert long_text([message], "user_1.1") == paste


def test_an_id_that_names_nothing_gives_nothing():
    messages = [user("Look.", PIXEL)]
    assert [long_text(messages, text_id) for text_id in ("user_1.0", "user_1.1", "user_1.9", "user_1.x", "x", "")] == [
        "Look.", None, None, None, None, None,
    ]  # fmt: skip


def test_a_conversation_that_goes_on_is_shortened_as_one_that_is_looked_at_whole():
    texts, history = ShortenedTexts(), [user("x" * 100), user("y" * 10)]
    first = texts.of(history, 50)
    history.append(user("z" * 100))
    longer = texts.of(history, 50)
    assert longer == with_shortened(history, 50)
    # The same messages, not equal ones: what is known of them is known by their identity.
    assert all(map(is_, first, longer))
    assert texts.of(history, 20) == with_shortened(history, 20)
    assert texts.of(history[1:], 20) == with_shortened(history[1:], 20)
