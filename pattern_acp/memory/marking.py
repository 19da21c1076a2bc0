"""Which words of a text a query has too, in some form.

Owns: the comparison of tokens. Must not know: which passages are compared, or scores. It gives what FTS5's `highlight`
would mark, without going through the index: that reads all that a query's words are in, or opens each of its words
anew for every passage, .3 to 1 ms for eight passages of which .1 is needed.
"""

from collections.abc import Sequence

from pattern_acp.db.raw import Token
from pattern_acp.db.transaction import Transaction

TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")
"""That of `search_fts` (schema.sql)."""


class MatchHighlighter:
    """The terms of one query, to be found in texts."""

    def __init__(self, tx: Transaction, terms: Sequence[str]) -> None:
        self._tokens = tx.tokenizer(*TOKENIZER)
        phrases = [[token for _, _, token in self._tokens(term)] for term in terms]
        self._words = frozenset(phrase[0] for phrase in phrases if len(phrase) == 1)
        # `don't` is one term and two tokens, which have to stand side by side.
        self._phrases = [phrase for phrase in phrases if len(phrase) > 1]

    def words(self, *texts: str) -> tuple[str, ...]:
        """The words of `texts` that the query has too, lower case, in order, each once."""
        found: dict[str, None] = {}
        for text in texts:
            data = text.encode("utf-8", "replace")
            tokens = self._tokens(text)
            for start, end in self._places(tokens):
                found.setdefault(data[start:end].decode("utf-8", "replace").lower())
        return tuple(found)

    def _places(self, tokens: Sequence[Token]) -> list[tuple[int, int]]:
        """Where a word or phrase stands, in bytes; those that share a token as one."""
        if not self._phrases:
            return [(start, end) for start, end, token in tokens if token in self._words]
        places: list[tuple[int, int]] = []
        last = -1
        for number, (start, _, _) in enumerate(tokens):
            length = self._longest_at(tokens, number)
            if not length:
                continue
            through = number + length - 1
            if places and number <= last:
                last = max(last, through)
                places[-1] = (places[-1][0], tokens[last][1])
            else:
                last = through
                places.append((start, tokens[last][1]))
        return places

    def _longest_at(self, tokens: Sequence[Token], number: int) -> int:
        """How many tokens the longest phrase has that begins there; 0 for none."""
        fitting = [
            len(phrase)
            for phrase in self._phrases
            if [token for _, _, token in tokens[number : number + len(phrase)]] == phrase
        ]
        return max(fitting, default=int(tokens[number][2] in self._words))
