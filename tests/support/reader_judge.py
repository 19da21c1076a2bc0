"""Judges who reads what: nothing that is said to the model alone is shown to the user.

A tool's result has a text for the model and content for the user. An error has advice for the model
(`PatternError.advice`), a refusal and a held call a text for each. The name of a tool of ours, or an order to the
model, in what a client is shown of a call means that one text was taken for the other.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from pattern_acp.tools.registry import default_tools
from tests.support.wire import WireFaultError

_TOOLS = [tool.spec.name for tool in default_tools() if "_" in tool.spec.name]
_ORDERS = [
    r"tell the user",
    r"ask the user",
    r"do not (?:repeat|try)",
    r"send (?:it|all|the whole|one)",
    r"use (?:find|what you know|flags)",
    r"read (?:it|the file) again",
    r"leave (?:it|them) out",
    r"try (?:other|another|again)",
    r"choose (?:an?|others?|another)",
    r"(?:do|work on) something else",
    r"decide yourself",
    r"continue without",
]
_TO_THE_MODEL = re.compile(rf"(?<!')\b(?:{'|'.join(_TOOLS)})\b|(?:^|(?<=[.;:,] )|(?<=\n))(?i:{'|'.join(_ORDERS)})\b")
QUOTES_MODEL = "the model reads:"
"""Before a text that says whose it is, as that of a compaction."""

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.DOTALL | re.MULTILINE)
"""Output and quoted text, whose words are others'."""


class ReaderJudge:
    """Watches one connection, in either version of ACP."""

    def client_wrote(self, line: bytes) -> None:
        """Ignore what the client writes."""

    def agent_wrote(self, line: bytes) -> None:
        """Check a line of the agent.

        Raises:
            WireFaultError: the content of a tool call has words for the model.
        """
        if b'"tool_call' not in line:
            return
        message = cast("dict[str, Any]", json.loads(line))
        for text in _shown(message.get("params", {}).get("update", {})):
            found = _TO_THE_MODEL.search(_FENCED.sub("", text.partition(QUOTES_MODEL)[0]))
            if found is not None:
                raise WireFaultError(f"the user is shown what the model alone reads, {found[0]!r}: {text[:300]}")


def _shown(update: dict[str, Any]) -> Iterator[str]:
    for item in cast("list[dict[str, Any]]", update.get("content") or []):
        inner = item.get("content")
        if item.get("type") == "content" and isinstance(inner, dict):
            yield str(cast("dict[str, Any]", inner).get("text", ""))
