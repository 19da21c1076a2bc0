"""What the user typed, in the forms in which clients send it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.commands.slash import command_of
from pattern_acp.domain.ids import MessageId
from pattern_acp.domain.messages import AttachmentKind, ImagePart, Message, Part, ResourcePart, Role, TextPart
from pattern_acp.session.titles import title_of

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
    "plain: acpx, Toad, agent-shell, VS Code": lambda w: (TextPart(w),),
    "avante, a session that goes on": lambda w: (FILE, previous(w), previous("older"), continuing(2)),
    "avante, its first prompt that goes on": lambda w: (previous(w), continuing(1)),
    "avante, a session that was lost": lambda w: (
        previous("older"),
        TextPart("<previous_assistant_message>An answer.</previous_assistant_message>"),
        previous(w),
        recovering(3),
    ),
    "avante, a new session": lambda w: (TextPart("older"), TextPart(w), FILE),
    "Jupyter AI, a first prompt": lambda w: (TextPart(f"{NOTE}\n\n@Pattern {w}"),),
    "Jupyter AI, a first prompt to a persona of another name": lambda w: (TextPart(f"{NOTE}\n\n@My-Helper {w}"),),
    "Jupyter AI, a first prompt without the mention": lambda w: (TextPart(f"{NOTE}\n\n{w}"),),
    "Jupyter AI, a later prompt": lambda w: (TextPart(f"@Pattern {w}"),),
    "Jupyter AI, a session that was lost": lambda w: (TextPart(f"{RECOVERED}{w}"), FILE),
    "Jupyter AI, with an attachment": lambda w: (TextPart(f"{NOTE}\n\n@Pattern {w}"), FILE),
    "CodeCompanion, after a cancelled prompt": lambda w: (TextPart("cancelled words"), TextPart(w)),
    "CodeCompanion, with a buffer": lambda w: (
        TextPart('<attachment filepath="/work/a.py">Here is the buffer</attachment>'),
        TextPart(w),
    ),
    "agentic.nvim, a first prompt": lambda w: (
        TextPart(w),
        TextPart("<environment_info>\n- Platform: Linux\n</environment_info>"),
    ),
    "agentic.nvim, with selected code": lambda w: (
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
    "marimo": lambda w: (TextPart(w), FILE, ResourcePart("marimo_rules.md", "marimo_rules.md", "Rules.")),
    "Qt Creator": lambda w: (FILE, ResourcePart("file:///work/a.py", "a.py", "cursor: line 1"), TextPart(w)),
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
