"""Reads the evaluation set: what is remembered, and questions with their answers. README.md tells the form."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
QUESTION_KINDS = {
    "P": "paraphrase",
    "I": "identifier",
    "M": "mixed",
    "N": "no answer",
    "Q": "conversation",
    "T": "misspelt",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """An archival entry; `supersedes` is the id of another, or empty."""

    id: str
    text: str
    supersedes: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a past session."""

    id: str
    session: str
    by_person: bool
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; `answer` is the id of a fact or message, empty when there is none."""

    kind: str
    text: str
    answer: str


@dataclass(slots=True)
class MemorySet:
    """The whole set."""

    facts: list[Fact] = field(default_factory=list[Fact])
    said: list[Said] = field(default_factory=list[Said])
    questions: list[Question] = field(default_factory=list[Question])


def load_set() -> MemorySet:
    """The set as it is in the files beside this module."""
    made = MemorySet()
    session, last, is_correction = 0, "", False
    for number, (mark, text) in enumerate(_lines(), start=1):
        if mark in {"F", "D", "S"}:
            made.facts.append(Fact(f"f{number}", text, last if mark == "S" else ""))
            last, is_correction = f"f{number}", mark == "S"
        elif mark == "C":
            session += 1
        elif mark in {"u", "a"}:
            made.said.append(Said(f"m{number}", f"s{session}", mark == "u", text))
            last, is_correction = f"m{number}", False
        else:
            kind = "superseded" if is_correction and mark != "N" else QUESTION_KINDS[mark]
            made.questions.append(Question(kind, text, "" if mark == "N" else last))
    return made


def _lines() -> Iterator[tuple[str, str]]:
    for path in sorted(FOLDER.glob("memory-*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            mark, _, text = line.partition(" ")
            if mark != "#":
                yield mark, text
