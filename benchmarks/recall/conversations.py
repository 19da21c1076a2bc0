"""Conversations of two people over months, made of hand-written scenes, and questions about single turns.

Made anew each time, always the same for a seed. Between the scenes stand greetings, thanks and remarks that share words
with them. A question belongs to the half that its scene belongs to: weights are fitted on one half and reported on the
other.
"""

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pattern_acp.memory.search_terms import STOP_WORDS

SCENES = Path(__file__).with_name("scenes.txt")

PEOPLE = (
    ("Marta", "Jonah"),
    ("Amara", "Viktor"),
    ("Selin", "Dave"),
    ("Hanna", "Luis"),
    ("Priya", "Otto"),
    ("Grace", "Emil"),
)
"""Speakers of each conversation."""

SESSIONS = 18

GREETINGS = (
    "Hey {y}! So good to hear from you. How have you been?",
    "Hi {y}, long time no see! What's new?",
    "{y}!! Finally. How are things?",
    "Good morning {y}, hope you are doing well!",
)
ANSWERS = (
    "Hi {x}! All good here, just busy. And you?",
    "Hey {x}, great to see you! A lot has happened, how about you?",
    "Hello {x}! Tired but happy. What's up with you?",
)
REMARKS = (
    "That's great, {x}!",
    "Wow, {x}, that sounds amazing! I am so proud of you.",
    "Thanks, {x}. That means a lot to me.",
    "Thank you so much, {x}! What about you, any plans for the weekend?",
    "Absolutely. Taking time for yourself matters more than anything.",
    "I was thinking of a {word} too, but who has the time, {x}?",
    "Haha, {x}, you and your {word}! Did you take any photos?",
    "It's so important to have people around who care. What did the others say, {x}?",
)
FAREWELLS = (
    "Bye {x}, take care!",
    "Talk to you soon, {x}! Thanks for everything.",
    "See you, {x}. Hugs to everyone!",
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said, by the first or the second speaker, and when."""

    id: str
    session: str
    by_first: bool
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the turns that answer it."""

    text: str
    kind: str
    """words, single, reply, date, hops, or mistaken where it names the wrong speaker."""
    evidence: frozenset[str]
    half: int
    now: datetime
    scene: str
    """Questions of one scene are found or missed together, so they say less than as many of others."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """All sessions of two speakers."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


@dataclass(slots=True)
class Scene:
    """A scene as it is written."""

    name: str
    rows: list[list[str]] = field(default_factory=list[list[str]])
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    questions: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    dated: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])


def read_scenes() -> tuple[list[Scene], list[list[str]]]:
    """The scenes, and the questions of several hops."""
    scenes: list[Scene] = []
    hops: list[list[str]] = []
    for line in SCENES.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "@":
            scenes.append(Scene(rest))
        elif mark == "=":
            scenes[-1].rows.append(rest.split("|"))
        elif mark in {"X", "Y"}:
            scenes[-1].lines.append((mark, rest))
        elif mark == "?":
            number, _, text = rest.partition(" ")
            scenes[-1].questions.append((int(number), text))
        elif mark == "!":
            when, number, text = rest.split(" ", 2)
            scenes[-1].dated.append((when, int(number), text))
        elif mark == "*":
            hops.append(rest.split("|"))
    return scenes, hops


class _Maker:
    def __init__(self, number: int, seed: int) -> None:
        self._random = random.Random(1_000 * seed + number)
        self._people = PEOPLE[number % len(PEOPLE)]
        self._name = f"talk{number}"
        self._turns: list[Turn] = []
        self._questions: list[Question] = []
        self._evidence: dict[tuple[str, bool, int], list[str]] = {}
        self._at = datetime(2023, 1, 10, 18, 0, tzinfo=UTC)
        self._session = ""
        self._end = datetime(2024, 6, 1, tzinfo=UTC)

    def make(self) -> Conversation:
        scenes, hops = read_scenes()
        played = [(scene, first, row) for scene in scenes for first, row in self._parts(scene)]
        self._random.shuffle(played)
        size = -(-len(played) // SESSIONS)
        for number in range(SESSIONS):
            self._at = self._at.replace(hour=self._random.randint(8, 21)) + timedelta(days=self._random.randint(5, 30))
            self._session = f"{self._name}-{number}"
            self._play_session(played[number * size : (number + 1) * size], [scene.name for scene in scenes])
        for text, *parts in hops:
            self._ask_hops(text, parts, [scene.name for scene in scenes])
        return Conversation(self._name, tuple(self._turns), tuple(self._questions))

    def _parts(self, scene: Scene) -> Iterable[tuple[bool, list[str]]]:
        rows = self._random.sample(scene.rows, k=2)
        return ((True, rows[0]), (False, rows[1]))

    def _play_session(self, scenes: list[tuple[Scene, bool, list[str]]], names: list[str]) -> None:
        first = self._random.random() < 0.5
        self._say(self._random.choice(GREETINGS), by_first=first)
        self._say(self._random.choice(ANSWERS), by_first=not first)
        for scene, by_first, row in scenes:
            self._play(scene, row, names.index(scene.name) % 2, by_first=by_first)
            for _ in range(self._random.randint(0, 2)):
                self._say(self._random.choice(REMARKS), by_first=self._random.random() < 0.5, word=self._word(row))
        self._say(self._random.choice(FAREWELLS), by_first=first)

    def _play(self, scene: Scene, row: list[str], half: int, *, by_first: bool) -> None:
        values = dict(zip("abcd", row, strict=False))
        x, y = self._people if by_first else self._people[::-1]
        ids: list[str] = []
        for mark, line in scene.lines:
            ids.append(self._say(line, by_first=by_first is (mark == "X"), **values))
        for number, text in scene.questions:
            kind = "reply" if number > 1 else "single"
            self._questions.append(
                Question(_filled(text, x, y, values), kind, frozenset({ids[number - 1]}), half, self._end, scene.name)
            )
        for when, number, text in scene.dated:
            asked = _filled(text, x, y, {**values, **_named(when, self._at, self._random)})
            self._questions.append(Question(asked, "date", frozenset({ids[number - 1]}), half, self._end, scene.name))
        for (mark, line), one in zip(scene.lines, ids, strict=True):
            words = [
                word
                for word in re.findall(r"[A-Za-z]{4,}", _filled(line, x, y, values))
                if word.lower() not in STOP_WORDS
            ]
            if len(words) >= 4:
                asked = " ".join(self._random.sample(words, k=3)).lower()
                text = f"What did {x if mark == 'X' else y} say about {asked}?"
                self._questions.append(Question(text, "words", frozenset({one}), half, self._end, scene.name))
        for number, one in enumerate(ids, start=1):
            self._evidence.setdefault((scene.name, by_first, number), []).append(one)

    def _ask_hops(self, text: str, parts: list[str], names: list[str]) -> None:
        for by_first in (True, False):
            x, y = self._people if by_first else self._people[::-1]
            evidence: set[str] = set()
            for part in parts:
                name, _, number = part.rpartition(" ")
                evidence.update(self._evidence.get((name, by_first, int(number)), ()))
            half = names.index(parts[0].rpartition(" ")[0]) % 2
            self._questions.append(
                Question(_filled(text, x, y, {}), "hops", frozenset(evidence), half, self._end, text)
            )

    def _say(self, text: str, *, by_first: bool, **values: str) -> str:
        speaker, other = self._people if by_first else self._people[::-1]
        said = text
        for name, value in {**values, "x": other, "y": other}.items():
            said = said.replace(f"{{{name}}}", value)
        said = said[0].upper() + said[1:]
        turn = Turn(f"{self._name}:{len(self._turns)}", self._session, by_first, f"{speaker}: {said}", self._at)
        self._turns.append(turn)
        self._at += timedelta(minutes=1)
        return turn.id

    def _word(self, row: list[str]) -> str:
        words = [word for word in row[0].split() if word.isalpha() and len(word) > 3]
        return self._random.choice(words or ["break"])


def _filled(text: str, x: str, y: str, values: dict[str, str]) -> str:
    for name, value in {**values, "x": x, "y": y}.items():
        text = text.replace(f"{{{name}}}", value)
    return " ".join(text.split())


def _named(when: str, at: datetime, chance: random.Random) -> dict[str, str]:
    """The day or month that a question names."""
    day = at
    if when in {"sat", "sun"}:
        day -= timedelta(days=(at.weekday() - {"sat": 5, "sun": 6}[when]) % 7 or 7)
    elif when == "next":
        day = (at.replace(day=1) + timedelta(days=32)).replace(day=1)
    elif when != "month":
        day += timedelta(days=int(when))
    forms = ("{d} {m} {y}", "{m} {d}, {y}", "{iso}", "{d} {m}")
    form = chance.choice(forms).format(d=day.day, m=day.strftime("%B"), y=day.year, iso=day.strftime("%Y-%m-%d"))
    return {"date": form, "month": chance.choice(("{m}", "{m} {y}")).format(m=day.strftime("%B"), y=day.year)}


def make_conversations(seed: int = 1) -> tuple[Conversation, ...]:
    """One conversation for each pair of `PEOPLE`."""
    return tuple(_Maker(number, seed).make() for number in range(len(PEOPLE)))
