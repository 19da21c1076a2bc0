"""The actions at the end of what a model writes, found while it is written.

Owns: where an action may stand. Only the last lines of an answer can be actions: a run of them with blank lines
between, and nothing behind. Lines in code fences, quotes and indented lines are never actions, and neither is what a
frame holds. An answer runs as a whole or not at all: what is behind an action that cannot be read, or behind one
that text follows, could have been meant as its argument. No word anywhere takes an action back.

Text that can be no part of such a run is returned at once; a line that may begin one is held back. Must not know:
tools, wires, or what becomes of an action. Actions that cannot be read, or stand where none can, give a sentence.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.domain.action_lines import Verbs, split_action
from pattern_acp.domain.argument_repair import meant_name, read_object
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.tool_calls import NOTHING_RAN

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_NAMED = late_pattern(rf"({_NAME}(?:\.[A-Za-z0-9_]+)*)=")
_NEXT_NAMED = late_pattern(rf"\s+({_NAME}(?:\.[A-Za-z0-9_]+)*)=")
_FRAME = late_pattern(r"<<(-?)(['\"]?)([^\W\d]\w*)\2(?=\s|$)")
_SINGLE = late_pattern(r"'([^']*)'(?=\s|$)")
_PLAIN = late_pattern(r"[A-Za-z_./][A-Za-z0-9_./@:+-]*")
_WORDS_OF_JSON = frozenset({"true", "false", "null", "NaN", "Infinity"})
_SHOWN = 40
"""Most characters of the model's words in a sentence."""


class ActionError(PatternError):
    """An action that cannot be read; the sentence says what is wrong with it."""

    failure_code = "model.action-unreadable"


class ToolVerb(Struct, frozen=True):
    """A tool as a verb: its name, and the JSON Schema of its arguments."""

    name: str
    schema: JsonObject = field(default_factory=dict[str, Json])

    @property
    def arguments(self) -> Mapping[str, Json]:
        """The schemas of its arguments by name."""
        found = self.schema.get("properties")
        return found if isinstance(found, Mapping) else {}

    @property
    def only(self) -> str:
        """The argument that a line without names gives: the one that must be there; the first when none must."""
        required = self.schema.get("required")
        names = [str(name) for name in required] if _is_list(required) else []
        names = names or list(self.arguments)[:1]
        return names[0] if len(names) == 1 else ""

    def is_text(self, path: Sequence[str]) -> bool:
        """Return whether the value at a path is text by the schema, so that a bare 5 is the text 5."""
        node: Json = self.schema
        for step in path:
            inside = node.get("items" if step.isdigit() else "properties") if isinstance(node, Mapping) else None
            node = inside if step.isdigit() else inside.get(step) if isinstance(inside, Mapping) else None
        return isinstance(node, Mapping) and node.get("type") == "string"


class OpenAction(Struct):
    """An action whose lines are being read; `take` each of them, without its line break, while `wants_more`."""

    verb: ToolVerb
    _values: list[tuple[tuple[str, ...], Json]] = field(default_factory=list[tuple[tuple[str, ...], Json]])
    _frames: list[tuple[int, str, bool]] = field(default_factory=list[tuple[int, str, bool]])
    """Frames that are not closed: which value, the marker, and whether the last line break counts."""
    _lines: list[str] = field(default_factory=list[str])
    _json: list[str] | None = None
    _whole: JsonObject | None = None

    @property
    def wants_more(self) -> bool:
        """True when a frame or a JSON object is not closed."""
        return bool(self._frames) or self._json is not None

    def begin(self, rest: str) -> None:
        """Read what is behind the verb. Raises ActionError where it is not in the grammar."""
        if rest.startswith("{"):
            self._json = []
            self.take(rest)
            return
        at = 0
        if rest and not self._starts_with_name(rest):
            self._add_only(rest)
            return
        while at < len(rest):
            at = self._take_named(rest, at)

    def take(self, line: str) -> None:
        """Read one more line. Raises ActionError where it is not in the grammar."""
        if self._json is not None:
            self._take_json(line)
            return
        place, marker, ends_line = self._frames[0]
        if line.rstrip() != marker:
            self._lines.append(line)
            return
        text = "\n".join(self._lines) + ("\n" if ends_line and self._lines else "")
        self._values[place] = (self._values[place][0], text)
        self._lines.clear()
        del self._frames[0]

    def end(self) -> JsonObject:
        """The arguments. Raises ActionError where something is not closed, given twice, or in a list out of turn."""
        if self._frames:
            marker = self._frames[0][1]
            raise ActionError(f"The text for <<{marker} is not closed; put a line that is {marker} alone behind it.")
        if self._json is not None:
            raise ActionError("The JSON object is not closed or not valid; write valid JSON, or NAME=VALUE.")
        if self._whole is not None:
            return self._whole
        arguments: dict[str, Json] = {}
        for path, value in self._values:
            _put(arguments, path, value)
        return arguments

    def _starts_with_name(self, rest: str) -> bool:
        found = _NAMED.match(rest)
        return found is not None and self._known(found[1])

    def _known(self, path: str) -> bool:
        name, known = path.partition(".")[0], self.verb.arguments
        return not known or name in known or bool(meant_name(name, known))

    def _add_only(self, rest: str) -> None:
        if not self.verb.only:
            raise ActionError(f"What follows /{self.verb.name} must be NAME=VALUE, not {_shown(rest)}.")
        self._take_value((self.verb.only,), rest, 0, to_end=True)

    def _take_named(self, rest: str, at: int) -> int:
        found = _NAMED.match(rest, at)
        if found is None or not self._known(found[1]):
            names = ", ".join(self.verb.arguments) or "any"
            raise ActionError(
                f"NAME=VALUE is expected where {_shown(rest[at:])} stands; names are {names}. "
                "Put text with blanks into double quotes."
            )
        end = self._take_value(tuple(found[1].split(".")), rest, found.end())
        return end + len(rest[end:]) - len(rest[end:].lstrip())

    def _take_value(self, path: tuple[str, ...], rest: str, at: int, *, to_end: bool = False) -> int:
        """Read the value at `at`; where it ends. `to_end`: whatever is there to the end of the line is one value."""
        frame = _FRAME.match(rest, at)
        if frame is not None and not (to_end and rest[frame.end() :].strip()):
            self._frames.append((len(self._values), frame[3], not frame[1]))
            self._values.append((path, ""))
            return frame.end()
        quoted = self._quoted(path, rest, at, to_end=to_end)
        if quoted is not None:
            self._values.append((path, quoted[0]))
            return quoted[1]
        end = len(rest) if to_end else self._end_of_bare(rest, at)
        self._values.append((path, self._bare(path, rest[at:end].strip())))
        return end

    def _quoted(self, path: tuple[str, ...], rest: str, at: int, *, to_end: bool) -> tuple[Json, int] | None:
        single = _SINGLE.match(rest, at)
        if single is not None and not (to_end and rest[single.end() :].strip()):
            return single[1], single.end()
        first = rest[at : at + 1]
        if first not in {'"', "{", "["} or (to_end and first != '"') or (first != '"' and self.verb.is_text(path)):
            return None
        try:
            value, end = json.JSONDecoder().raw_decode(rest, at)
        except (ValueError, RecursionError) as error:
            if to_end:
                return None
            raise ActionError(
                f"The value of {'.'.join(path)} is not closed on its line, or no valid JSON; text of several lines "
                f"is written as {'.'.join(path)}=<<END, then the lines, then a line that is END alone."
            ) from error
        if rest[end : end + 1].strip():
            if to_end:
                return None
            raise ActionError(f"A blank must follow the value of {'.'.join(path)}.")
        return None if to_end and rest[end:].strip() else (value, end)

    def _end_of_bare(self, rest: str, at: int) -> int:
        while (found := _NEXT_NAMED.search(rest, at)) is not None:
            if self._known(found[1]):
                return found.start()
            at = found.end()
        return len(rest)

    def _bare(self, path: tuple[str, ...], text: str) -> Json:
        if self.verb.is_text(path):
            return text
        try:
            value: Json = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value

    def _take_json(self, line: str) -> None:
        lines = self._json if self._json is not None else []
        lines.append(line)
        if not line.rstrip().endswith("}"):
            return
        try:
            value: Json = json.loads("\n".join(lines))
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            self._whole, self._json = value, None


def write_action(verb: ToolVerb, arguments: JsonObject) -> str:
    """A call as text that reads as the same call; the last line ends without a line break."""
    values = list(_flat(arguments))
    if not all(_can_be_named(verb, path, value) for path, value in values):
        return f"/{verb.name} {json.dumps(arguments, ensure_ascii=False)}"
    framed = [value for _, value in values if isinstance(value, str) and "\n" in value]
    marker, number = "END", 1
    taken = {line.rstrip() for text in framed for line in text.split("\n")}
    while marker in taken:
        number += 1
        marker = f"END{number}"
    words = [f"/{verb.name}"]
    for path, value in values:
        words.append(f"{'.'.join(path)}={_written(value, marker)}")
    lines = [" ".join(words)]
    for text in framed:
        lines += [*text.removesuffix("\n").split("\n"), marker]
    return "\n".join(lines)


def _flat(arguments: JsonObject) -> list[tuple[tuple[str, ...], Json]]:
    """The values by path; a list of objects with text of several lines in it is taken apart."""
    found: list[tuple[tuple[str, ...], Json]] = []
    for name, value in arguments.items():
        if _is_list(value) and value and all(isinstance(item, Mapping) and item for item in value):
            inside = [
                ((name, str(number), key), each)
                for number, item in enumerate(value, 1)
                if isinstance(item, Mapping)
                for key, each in item.items()
            ]
            if any(isinstance(each, str) and "\n" in each for _, each in inside) and all(
                re.fullmatch(_NAME, path[-1]) for path, _ in inside
            ):
                found += inside
                continue
        found.append(((name,), value))
    return found


def _can_be_named(verb: ToolVerb, path: tuple[str, ...], value: Json) -> bool:
    known = verb.arguments
    is_name = re.fullmatch(_NAME, path[0]) is not None and (not known or path[0] in known)
    # Without quotes a value is text where the schema says so.
    return is_name and (isinstance(value, str) or not verb.is_text(path))


def _written(value: Json, marker: str) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if "\n" in value:
        return f"<<{marker}" if value.endswith("\n") else f"<<-{marker}"
    is_plain = _PLAIN.fullmatch(value) is not None and value not in _WORDS_OF_JSON
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _put(arguments: dict[str, Json], path: tuple[str, ...], value: Json) -> None:
    name = ".".join(path)
    node: Json = arguments
    for at, step in enumerate(path):
        is_last = at == len(path) - 1
        inner: Json = value if is_last else [] if path[at + 1].isdigit() else {}
        if _is_entries(node):
            if not step.isdigit() or not 1 <= int(step) <= len(node) + 1:
                raise ActionError(f"{name} is out of turn: entries of a list are counted from 1, none left out.")
            if int(step) == len(node) + 1:
                node.append(inner)
            elif is_last:
                raise ActionError(f"{name} appears twice.")
            node = node[int(step) - 1]
        elif isinstance(node, dict):
            if is_last and step in node:
                raise ActionError(f"{name} appears twice.")
            node = node.setdefault(step, inner)
        else:
            raise ActionError(f"{name} is inside a value that has been set whole.")


def _is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_entries(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list)


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= _SHOWN else f"{flat[:_SHOWN]}…")


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
    """Reads one answer. `result_mark` begins the line with which the model gets results."""

    verbs: Verbs[ToolVerb]
    result_mark: str
    _line: str = ""
    _given: int = 0
    """Number of characters of the unfinished line that were returned."""
    _held: list[str] = field(default_factory=list[str])
    """The lines of the run so far, with their line breaks."""
    _run: list[OpenAction] = field(default_factory=list[OpenAction])
    _problem: str = ""
    _fence: str = ""
    _stray: _Begun | None = None
    _in_fence: _Begun | None = None
    _is_over: bool = False
    """True when the model continued with results of its own invention, which nobody reads."""

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
        why = "Text follows it, so nothing ran. Actions run only as the last lines of an answer."
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
                why = "It is in a code fence, so nothing ran. Write actions without a fence around them."
                self._in_fence = _Begun(verb.name, line, why)
        elif line.strip():
            self._in_fence = None
            if fence is not None and not (fence[1].startswith("`") and "`" in fence[2]):
                self._fence = fence[1]


_HERMES, _HERMES_END = "<tool_call>", "</tool_call>"
_HERMES_NAME = late_pattern(r'"name"\s*:\s*"([^"]{1,80})"')
_HERMES_HELD = tuple(_HERMES[:length] for length in range(len(_HERMES) - 1, 0, -1))


class HermesCall(Struct, frozen=True):
    """One call in the Hermes form. With a `problem` nothing can be run, and `raw` is what the model wrote."""

    name: str
    arguments: JsonObject
    raw: str = ""
    problem: str = ""


class HermesReader(Struct):
    """Takes calls in the form of Hermes, Qwen, Granite and SmolLM out of an answer while it is written.

    A call is an object with `name` and `arguments` between `<tool_call>` and its end, outside code fences and quotes.
    Its bounds are plain, so that text may follow it, unlike an action. One pair of marks may hold several, one a line.
    """

    verbs: Verbs[ToolVerb]
    calls: list[HermesCall] = field(default_factory=list[HermesCall])
    _held: str = ""
    _line: str = ""
    """The unfinished line of text so far."""
    _fence: str = ""
    _is_inside: bool = False
    _is_behind: bool = False
    """True right behind a call, where line breaks are no text."""

    def feed(self, text: str) -> str:
        """Take more of the answer; return what of it is text."""
        self._held += text
        shown: list[str] = []
        while self._held:
            if self._is_behind:
                self._held = self._held.lstrip("\n")
                self._is_behind = not self._held
                continue
            if self._is_inside:
                inside, mark, rest = self._held.partition(_HERMES_END)
                if not mark:
                    break
                self._is_inside, self._is_behind, self._held = False, True, rest
                self._read(inside)
                continue
            before, mark, rest = self._held.partition(_HERMES)
            if mark and self._may_begin(before):
                shown.append(self._passed(before))
                self._is_inside, self._held = True, rest
                continue
            if mark:
                shown.append(self._passed(before + mark))
                self._held = rest
                continue
            kept = next((part for part in _HERMES_HELD if self._held.endswith(part)), "")
            shown.append(self._passed(self._held[: len(self._held) - len(kept)]))
            self._held = kept
            break
        return "".join(shown)

    def end(self, *, is_cut: bool) -> str:
        """Take the end of the answer; return the text that was held back."""
        held, self._held = self._held, ""
        if not self._is_inside:
            return held
        self._is_inside = False
        # Many models leave out the last mark, and servers take it for the end of the answer.
        self._read(held, is_open=is_cut)
        return ""

    def _may_begin(self, before: str) -> bool:
        line = (self._line + before).rpartition("\n")[2]
        return not self._fence_behind(before) and line.count("`") % 2 == 0

    def _fence_behind(self, text: str) -> str:
        """The fence that is open behind `text`."""
        fence = self._fence
        for line in (self._line + text).split("\n")[:-1]:
            found = _FENCE.match(line)
            if found is None:
                continue
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence) and not found[2].strip():
                fence = ""
        return fence

    def _passed(self, text: str) -> str:
        self._fence = self._fence_behind(text)
        self._line = (self._line + text).rpartition("\n")[2]
        return text

    def _read(self, text: str, *, is_open: bool = False) -> None:
        found: list[HermesCall] = []
        for pieces in ([line for line in text.split("\n") if line.strip()], [text]):
            try:
                found = [_hermes_call(piece) for piece in pieces]
                break
            except (ValueError, RecursionError):
                continue
        if is_open or not found:
            why = "The answer was cut before its end." if is_open else _NO_HERMES
            named = _HERMES_NAME.search(text)
            name = self._meant(named[1]) if named else next(iter(self.verbs.names()), "unreadable")
            self.calls.append(HermesCall(name, {}, text, why))
            return
        self.calls += [replace(call, name=self._meant(call.name)) for call in found]

    def _meant(self, name: str) -> str:
        verb = self.verbs.find(name)
        return verb.name if verb is not None else name


_NO_HERMES = 'It cannot be read, so it did not run. Write <tool_call>{"name": "NAME", "arguments": {…}}</tool_call>.'


def _hermes_call(text: str) -> HermesCall:
    """The call that a text is. Raises ValueError where it is none."""
    whole = read_object(text).value
    name = whole.get("name") or whole.get("function")
    arguments = whole.get("arguments", whole.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = read_object(arguments).value
    if not isinstance(name, str) or not name or not isinstance(arguments, Mapping):
        raise ValueError("no call")
    return HermesCall(name, arguments)


def _in_words(action: OpenAction, error: ActionError, number: int) -> str:
    place = f"Action {number}, /{action.verb.name}, cannot be read" if number > 1 else "It cannot be read"
    return f"{place}: {error.sentence} {NOTHING_RAN}"
