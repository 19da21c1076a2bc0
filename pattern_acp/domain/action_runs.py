"""The actions at the end of what a model writes, found while it is written.

Owns: where an action may stand. Only the last lines of an answer can be actions: a run of them with blank lines
between, and nothing behind. Lines in code fences, quotes and indented lines are never actions, and neither is what a
frame holds. An answer runs as a whole or not at all: what stands behind an action that cannot be read, or behind one
that text follows, could have been meant as its argument. No word anywhere takes an action back.

Text that can be no part of such a run is given out at once; a line that may begin one is held back. Must not know:
tools, wires, or what becomes of an action. Actions that cannot be read, or stand where none can, give a sentence.
"""

import re

from msgspec import Struct, field

from pattern_acp.domain.action_arguments import ActionError, OpenAction, ToolVerb
from pattern_acp.domain.action_lines import Verbs, split_action
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.late_pattern import late_pattern

_FENCE = late_pattern(r" {0,3}(`{3,}|~{3,})(.*)")
_MAYBE_VERB = late_pattern(r"/[^\s/]{0,80}")
"""The beginning of a line that may still become an action; longer words are no verbs."""


class Action(Struct, frozen=True):
    """One action: the verb that is meant, and its arguments."""

    verb: str
    arguments: JsonObject


class RunEnd(Struct, frozen=True):
    """The end of an answer: more text, and the run, or why nothing of it runs.

    With a `problem`, `raw` is what the model wrote and `verb` the first verb in it; then there are no actions.
    """

    text: str = ""
    actions: tuple[Action, ...] = ()
    problem: str = ""
    verb: str = ""
    raw: str = ""


class _Begun(Struct):
    """A line that began an action where none can be, and why none can be there."""

    verb: str
    raw: str
    why: str


class ActionReader(Struct):
    """Reads one answer. `result_mark` begins the line with which results are told to the model."""

    verbs: Verbs[ToolVerb]
    result_mark: str
    _line: str = ""
    _given: int = 0
    """How many characters of the unfinished line were given out."""
    _held: list[str] = field(default_factory=list[str])
    """The lines of the run so far, with their line breaks."""
    _run: list[OpenAction] = field(default_factory=list[OpenAction])
    _problem: str = ""
    _fence: str = ""
    _stray: _Begun | None = None
    _in_fence: _Begun | None = None
    _is_over: bool = False
    """Whether the model went on with results of its own invention, which nobody reads."""

    def feed(self, text: str) -> str:
        """Take more of the answer; what of it is text, now that it is known."""
        given: list[str] = []
        for piece in re.split(r"(?<=\n)", text):
            self._line += piece
            if self._line.endswith("\n"):
                given.append(self._end_line())
            else:
                given.append(self._begun_line())
        return "".join(given)

    def end(self) -> RunEnd:
        """Take the end of the answer."""
        text = self._end_line() if self._line else ""
        if not self._held:
            stray = self._in_fence or self._stray
            return RunEnd(text) if stray is None else RunEnd(text, (), stray.why, stray.verb, stray.raw)
        raw, first = "".join(self._held), self._run[0].verb.name
        actions: list[Action] = []
        for action in self._run:
            if not self._problem:
                try:
                    actions.append(Action(action.verb.name, action.end()))
                except ActionError as error:
                    self._problem = _in_words(action, error, len(self._run))
        return RunEnd(text, (), self._problem, first, raw) if self._problem else RunEnd(text, tuple(actions))

    def _begun_line(self) -> str:
        if self._held or self._is_over or (not self._fence and not self._given and self._may_be_action()):
            return ""
        new = self._line[self._given :]
        self._given = len(self._line)
        return new

    def _may_be_action(self) -> bool:
        if self._stray is not None:
            return False
        return _MAYBE_VERB.fullmatch(self._line) is not None or self._verb_of(self._line) is not None

    def _end_line(self) -> str:
        line, given = self._line, self._given
        self._line, self._given = "", 0
        if self._is_over:
            return ""
        if self._held:
            return self._line_of_run(line)
        if not self._fence and not given and self._begin(line):
            return ""
        self._note_text(line)
        return line[given:]

    def _line_of_run(self, line: str) -> str:
        last = self._run[-1]
        if self._problem:
            self._held.append(line)
            return ""
        if last.wants_more:
            self._held.append(line)
            self._read(last, line.removesuffix("\n"))
            return ""
        if line.startswith(self.result_mark):
            self._is_over = True
            return ""
        if not line.strip():
            self._held.append(line)
            return ""
        if self._begin(line):
            return ""
        text = "".join(self._held)
        why = "Text stands behind it, so nothing ran. Actions run only as the last lines of an answer."
        self._stray = _Begun(self._run[0].verb.name, text, why)
        self._held.clear()
        self._run.clear()
        self._note_text(line)
        return text + line

    def _begin(self, line: str) -> bool:
        """Begin the action that a line is, if it is one."""
        verb = self._verb_of(line)
        found = split_action(line)
        if verb is None or found is None or self._stray is not None:
            return False
        self._held.append(line)
        self._run.append(OpenAction(verb))
        self._read(self._run[-1], found[1], begins=True)
        return True

    def _read(self, action: OpenAction, line: str, *, begins: bool = False) -> None:
        try:
            action.begin(line) if begins else action.take(line)
        except ActionError as error:
            self._problem = self._problem or _in_words(action, error, len(self._run))

    def _verb_of(self, line: str) -> ToolVerb | None:
        found = split_action(line)
        return self.verbs.find(found[0]) if found is not None else None

    def _note_text(self, line: str) -> None:
        """Keep track of code fences."""
        fence = _FENCE.match(line)
        if self._fence:
            closes = fence is not None and fence[1].startswith(self._fence) and not fence[2].strip()
            if closes:
                self._fence = ""
            elif self._in_fence is None and (verb := self._verb_of(line)) is not None:
                why = "It stands in a code fence, so nothing ran. Write actions without a fence around them."
                self._in_fence = _Begun(verb.name, line, why)
        elif line.strip():
            self._in_fence = None
            if fence is not None and not (fence[1].startswith("`") and "`" in fence[2]):
                self._fence = fence[1]


def _in_words(action: OpenAction, error: ActionError, number: int) -> str:
    place = f"Action {number}, /{action.verb.name}, cannot be read" if number > 1 else "It cannot be read"
    return f"{place}: {error.sentence} Nothing of it ran."
