"""Odd answers of servers as data, one module a wire, each with the one outcome that it should have.

Owns: the form of an entry. Must not know: how they are played (`test_odd_answers.py` does).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_TYPE = re.compile(r'\{"type": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Odd:
    """One answer and what should become of it. `failed` is the name of an error's class; empty for an answer."""

    body: str
    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Mapping[str, object]], ...] = ()
    stop: str = "end"
    failed: str = ""
    status: int = 200
    content_type: str = "text/event-stream"
    usage: tuple[int, int] | None = field(default=None)
    """Tokens of the prompt and of the answer, where they matter."""


def sse(*events: object) -> str:
    """A stream of events without names; text is data as it is."""
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


def named(*events: object) -> str:
    """A stream of events with the type of each as its name."""
    frames: list[str] = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        found = _TYPE.match(data)
        kind = found[1] if found else ""
        frames.append(f"event: {kind}\ndata: {data}\n\n" if kind else f"data: {data}\n\n")
    return "".join(frames)
