"""Made-up messages and facts of any number, always the same for a seed: for measuring time, not quality."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

SYLLABLES = [
    "ba",
    "co",
    "de",
    "fi",
    "gu",
    "ha",
    "ki",
    "lo",
    "mu",
    "na",
    "po",
    "re",
    "sa",
    "ti",
    "vo",
    "wa",
    "ze",
    "chi",
    "dor",
    "fen",
    "gal",
    "hin",
    "jor",
    "ken",
    "lam",
    "mor",
    "nes",
    "pra",
    "qui",
]
FILLERS = [
    "the",
    "a",
    "to",
    "of",
    "and",
    "is",
    "in",
    "it",
    "for",
    "that",
    "with",
    "on",
    "as",
    "we",
    "this",
    "be",
    "are",
    "not",
    "from",
    "by",
    "use",
    "when",
    "if",
    "should",
    "can",
    "will",
]
WORDS = 30_000


@dataclass(frozen=True, slots=True)
class MadeUp:
    """One text, and a question with some of its words."""

    text: str
    question: str


class Corpus:
    """Texts with words as rare and as frequent as in prose (Zipf, the most frequent one in every eighth text),
    a third of them fillers, some identifiers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = self._make_words()
        self._weights = list(accumulate(1.0 / (place + 40.0) for place in range(WORDS)))

    def text(self) -> str:
        """A text of 20 to 90 words."""
        size = self._random.randint(20, 90)
        words = self._random.choices(self._words, cum_weights=self._weights, k=size)
        for place in range(0, size, 3):
            words[place] = self._random.choice(FILLERS)
        if self._random.random() < 0.3:
            words[-1] = f"{words[1]}_{words[2]}" if self._random.random() < 0.5 else words[1] + words[2].title()
        return " ".join(words).capitalize() + "."

    def question(self, text: str) -> str:
        """Three to eight words of `text`, with fillers between."""
        telling = [word for word in text.rstrip(".").split() if word not in FILLERS]
        asked: Sequence[str] = self._random.sample(telling, k=min(len(telling), self._random.randint(3, 8)))
        return "what did we say about " + " ".join(asked)

    def common_question(self) -> str:
        """Two to four words that are in an eighth of all texts or more, and one that is in half of them."""
        return "how should we use " + " ".join(self._random.sample(self._words[:20], k=self._random.randint(2, 4)))

    def _make_words(self) -> list[str]:
        made: dict[str, None] = {}
        while len(made) < WORDS:
            made.setdefault("".join(self._random.choices(SYLLABLES, k=self._random.randint(1, 4))))
        return list(made)
