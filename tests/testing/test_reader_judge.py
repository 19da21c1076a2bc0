import json

import pytest

from tests.support.reader_judge import ReaderJudge
from tests.support.wire import WireFaultError


def line(text: str) -> bytes:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "content": content}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}}).encode()


@pytest.mark.parametrize(
    "text",
    [
        "a is a folder; use list_directory.",
        "The user wants to wait. Do something else first.",
        "Not done yet.\nRead it again.",
    ],
)
def test_words_for_the_model_are_found(text: str):
    with pytest.raises(WireFaultError, match="what the model alone reads"):
        ReaderJudge().agent_wrote(line(text))


@pytest.mark.parametrize(
    "text", ["There is no tool named 'read_file'.", "```\nuse read_file\n```", "a was read again."]
)
def test_facts_and_output_are_not(text: str):
    ReaderJudge().agent_wrote(line(text))
