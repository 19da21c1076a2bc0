"""Chats written as a whole (letters.txt), for a look from outside: no weight was chosen by them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from conversations import Conversation, Question, Turn

LETTERS = Path(__file__).with_name("letters.txt")

HALF = 2
"""What takes the place of the half in questions about letters."""

_NOW = datetime(2024, 6, 1, tzinfo=UTC)


def read_letters() -> Conversation:
    """All chats as one conversation, so that each is among what others said."""
    people: list[str] = []
    turns: list[Turn] = []
    asked: list[tuple[str, str, frozenset[str]]] = []
    labelled: dict[str, list[str]] = {}
    at, session = _NOW, 0
    for line in LETTERS.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        match mark:
            case "@":
                people, labelled = rest.split("|"), {}
            case "=":
                at, session = datetime.fromisoformat(rest).replace(tzinfo=UTC), session + 1
            case "A" | "B":
                by_first = mark == "A"
                text = f"{people[not by_first]}: {rest}"
                turns.append(Turn(f"letters:{len(turns)}", f"letters-{session}", by_first, text, at))
                at += timedelta(minutes=1)
            case "?":
                asked.append((rest, "single", frozenset({turns[-1].id})))
            case "!":
                asked.append((rest, "mistaken", frozenset({turns[-1].id})))
            case "^":
                labelled.setdefault(rest, []).append(turns[-1].id)
            case "*":
                label, _, text = rest.partition(" ")
                asked.append((text, "hops", frozenset(labelled[label])))
            case _:
                continue
    questions = tuple(Question(text, kind, evidence, HALF, _NOW, text) for text, kind, evidence in asked)
    return Conversation("letters", tuple(turns), questions)
