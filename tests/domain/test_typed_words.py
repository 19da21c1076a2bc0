"""What the user typed, in the forms in which clients send it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.commands.slash import command_of
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.messages import AttachmentKind, ImagePart, Message, Part, ResourcePart, Role, TextPart
from pattern_acp.session.commands import title_of

FILE = ResourcePart("file:///work/a.py", "a.py", given=AttachmentKind.LINK)
IMAGE = ImagePart("image/png", "AAAA")
NOTE = "System note: When creating or editing Jupyter notebooks, write cells with care."
RECOVERED = (
    "The session before was lost. This is what was said:\n<conversation_history>\nUser: old words\n"
    "Pattern: old answer\n</conversation_history>\n\nCurrent user message:\n"
)
SELECTED = "IMPORTANT: Focus and respect the line numbers provided in the <line_start> and <line_end> tags.\nMore."


def previous(text: str) -> TextPart:
    return TextPart(f"<previous_user_message>{text}</previous_user_message>")


def continuing(count: int) -> TextPart:
    sentence = f"Continuing from previous session with {count} recent user messages"
    return TextPart(f"<system_context>{sentence}</system_context>")


def recovering(count: int) -> TextPart:
    sentence = f"Continuing from previous ACP session with {count} recent messages preserved for context"
    return TextPart(f"<system_context>{sentence}</system_context>")


Form = Callable[[str], tuple[Part, ...]]

FORMS: dict[str, Form] = {
    # The versions whose sources or recordings the forms are from. Zed's are of its sources of 2026.
    "plain: acpx 0.19.1, Toad 0.6.20, agent-shell 0.63.6, vscode-acp 0.2.0": lambda w: (TextPart(w),),
    "avante.nvim a9334315, a session that goes on": lambda w: (FILE, previous(w), previous("older"), continuing(2)),
    "avante.nvim a9334315, its first prompt that goes on": lambda w: (previous(w), continuing(1)),
    "avante.nvim a9334315, a session that was lost": lambda w: (
        previous("older"),
        TextPart("<previous_assistant_message>An answer.</previous_assistant_message>"),
        previous(w),
        recovering(3),
    ),
    "avante.nvim a9334315, a new session": lambda w: (TextPart("older"), TextPart(w), FILE),
    "Jupyter AI 3.2.0, a first prompt": lambda w: (TextPart(f"{NOTE}\n\n@Pattern {w}"),),
    "Jupyter AI 3.2.0, a first prompt to a persona of another name": lambda w: (TextPart(f"{NOTE}\n\n@My-Helper {w}"),),
    "Jupyter AI 3.2.0, a first prompt without the mention": lambda w: (TextPart(f"{NOTE}\n\n{w}"),),
    "Jupyter AI 3.2.0, a later prompt": lambda w: (TextPart(f"@Pattern {w}"),),
    "Jupyter AI 3.2.0, a session that was lost": lambda w: (TextPart(f"{RECOVERED}{w}"), FILE),
    "Jupyter AI 3.2.0, with an attachment": lambda w: (TextPart(f"{NOTE}\n\n@Pattern {w}"), FILE),
    "CodeCompanion f1afd025, after a cancelled prompt": lambda w: (TextPart("cancelled words"), TextPart(w)),
    "CodeCompanion f1afd025, with a buffer": lambda w: (
        TextPart('<attachment filepath="/work/a.py">Here is the buffer</attachment>'),
        TextPart(w),
    ),
    "agentic.nvim cea3f3e, a first prompt": lambda w: (
        TextPart(w),
        TextPart("<environment_info>\n- Platform: Linux\n</environment_info>"),
    ),
    "agentic.nvim cea3f3e, with selected code": lambda w: (
        TextPart(w),
        TextPart(SELECTED),
        TextPart("<selected_code>\n<path>a.py</path>\n</selected_code>"),
        FILE,
    ),
    "Obsidian, with an open note": lambda w: (
        TextPart("The user has opened the note file:///v/n.md in Obsidian. This may or may not be related."),
        TextPart(f"@[[n]]\n{w}"),
    ),
    "Obsidian, with selected lines": lambda w: (
        ResourcePart("file:///v/n.md", "n.md", "text"),
        TextPart("The user has selected lines 1-3 in the above note. This is what they are currently focusing on."),
        TextPart(f"@[[n]]:1-3\n{w}"),
        IMAGE,
    ),
    "Obsidian, notes as text": lambda w: (
        TextPart(
            '<obsidian_mentioned_note ref="/v/m.md">\nm\n</obsidian_mentioned_note>\n'
            f"<obsidian_opened_note>The user opened n.</obsidian_opened_note>\n\n@[[n]]\n{w}"
        ),
    ),
    "Zed, a mention in front": lambda w: (FILE, TextPart(w)),
    "Zed, selected code behind": lambda w: (
        TextPart(w),
        ResourcePart("file:///work/a.py#L10:20", "a.py (10:20)", "x = 1"),
    ),
    "Zed, an earlier thread, a rule and a pasted image": lambda w: (
        ResourcePart("zed:///agent/thread/t1?name=Earlier", "Earlier", "An earlier conversation."),
        ResourcePart("zed:///agent/rule/r1?name=House+style", "House style", "Write short sentences."),
        IMAGE,
        TextPart(w),
    ),
    "marimo 0.25.2": lambda w: (TextPart(w), FILE, ResourcePart("marimo_rules.md", "marimo_rules.md", "Rules.")),
    "Qt Creator 20.0.2": lambda w: (FILE, ResourcePart("file:///work/a.py", "a.py", "cursor: line 1"), TextPart(w)),
}


def message(parts: tuple[Part, ...]) -> Message:
    return Message(MessageId("msg"), Role.USER, parts)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_the_user_typed_is_found_in_every_form_that_clients_send(form: Form):
    prompt = message(form("Fix the parser\n\nand <b>its</b> tests"))
    assert prompt.words == "Fix the parser\n\nand <b>its</b> tests"
    assert title_of(prompt) == "Fix the parser"
    assert command_of(prompt) is None


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_slash_command_is_one_in_every_form_that_clients_send(form: Form):
    for argument in ("", "all", "a fact\n\nof two lines"):
        command = command_of(message(form(f"/memory {argument}".strip())))
        assert command is not None
        assert (command.name, command.argument) == ("memory", argument)


def test_a_command_with_a_mentioned_file_behind_it_is_one():
    command = command_of(message((TextPart("/memory "), FILE, TextPart(" now"))))
    assert command is not None
    assert (command.name, command.argument) == ("memory", "now")


def test_what_zed_mentions_in_the_middle_of_the_words_is_named_there():
    symbol = ResourcePart("file:///work/b.py?symbol=run#L3:9", "run", given=AttachmentKind.LINK)
    prompt = message((TextPart("Move "), FILE, TextPart(" behind "), symbol, TextPart(", and test it.")))
    assert prompt.words == "Move @a.py behind @run, and test it."
    assert title_of(prompt) == "Move @a.py behind @run, and test it."


def test_a_command_behind_the_name_of_any_agent_is_one():
    command = command_of(message((TextPart("@Somebody /status"),)))
    assert command is not None
    assert command.name == "status"


@pytest.mark.parametrize(
    "text",
    [
        "@Makefile add a target",
        "@[[n]]",
        "@pattern/agent.py is slow",
        "<div>one</div> is not centred",
        "<my-element>is never shown</my-element>",
        "<build_log>a log alone</build_log>",
        "Why is <build_log>x</build_log> empty?\n<build_log>\n</build_log>",
        "<build_log> is never closed",
        "System note: nothing follows",
        "The user has selected lines 1-3 in the above note.",
        "  /help with a blank in front",
    ],
)
def test_what_only_looks_like_a_form_of_a_client_stays_as_it_was_typed(text: str):
    assert message((TextPart(text),)).words == text


def test_a_prompt_that_quotes_the_tags_of_its_client_is_whole():
    said = "what does </previous_user_message> mean?"
    assert message((previous(said), continuing(1))).words == said


@given(st.lists(st.text(alphabet="<>/_ab @:\n[]") | st.sampled_from(["</a_b>", "<a_b>", NOTE, "@[["]), max_size=6))
def test_no_text_without_any_form_is_lost(pieces: list[str]):
    text = "".join(pieces)
    words = message((TextPart(text),)).words
    assert text.endswith(words)
    assert bool(words.strip()) == bool(text.strip())
