"""Data that a session has read, by the events of its journal.

Owns: which results of calls are data of somebody else's, and what they are called. Must not know: what follows from it
(`policy.origins`). It is the same for a session that runs and for one that is opened again, since both are followed by
their events (rule R4).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from pattern_acp.definitions.skills import SKILL_TOOL, loaded_in
from pattern_acp.domain.access import DataSource, Origin, TrustTier, flat_text
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import Message, ResourcePart, TextPart
from pattern_acp.domain.paths import absolute_path, display_path
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import ToolCallView, ToolKind
from pattern_acp.journal.events import Event, SubagentRecorded, ToolCallFinished, ToolCallStarted, TurnStarted
from pattern_acp.policy.paths import is_inside_any
from pattern_acp.turn.recorder import NewEvent

MOST_CHARACTERS = 1_000_000
"""Most characters of data that are compared with what the agent does; the oldest leave first."""

MOST_OF_ONE = 200_000
"""Most characters of one result, or of what the user typed, that are compared."""

SHOWN_NAME = 100

_READING = frozenset({ToolKind.READ, ToolKind.SEARCH})


class DataRead:
    """Data that one session has read, and words that its user typed."""

    def __init__(self, roots: Sequence[str] = (), instructions: Iterable[str] = ()) -> None:
        """`roots` are the session's folders; `instructions` the files whose text is part of every request."""
        self._roots = tuple(roots)
        self._calls: dict[ToolCallId, ToolCallView] = {}
        self._skills: dict[str, str] = {}
        """The source of each skill that was loaded, by its name."""
        self._size = 0
        self._sources: deque[DataSource] = deque()
        self._ready: deque[DataSource] = deque()
        """The oldest of them, up to the last comparison, in the form in which they are compared."""
        self.instructions = tuple(
            DataSource(Origin.WORKSPACE, f"the instructions `{self._shown(path)}`", of_project=True)
            for path in instructions
            if is_inside_any(path, self._roots)
        )
        """Instruction files of the project: they are read in every turn."""
        self.turn: list[DataSource] = []
        """Data that the turn that runs has read."""
        self.said: deque[str] = deque()
        """Words that the user typed, oldest first, as they are compared."""
        self._said_size = 0

    @property
    def sources(self) -> Sequence[DataSource]:
        """All that the session has read, oldest first, as far as it is stored."""
        new = islice(self._sources, len(self._ready), None)
        self._ready.extend([replace(raw, text=flat_text(raw.text)) for raw in new])
        return tuple(self._ready)

    def follow(self, new: NewEvent) -> None:
        """Follow an event that was recorded."""
        self.note(new.event, new.origin)

    def note(self, event: Event, origin: Origin) -> None:
        """Follow one event of the session, in their order."""
        match event:
            case TurnStarted(message=message):
                self._begin(message)
            case SubagentRecorded(event=ToolCallStarted() | ToolCallFinished() as inner):
                self.note(inner, origin)
            case ToolCallStarted(call=call):
                self._calls[call.call_id] = call
            case ToolCallFinished(call_id=call_id, result_text=text):
                call = self._calls.pop(call_id, None)
                source = self._source(call, origin, text) if call is not None and text else None
                if source is not None:
                    self._add(source)
            case _:
                pass

    def _begin(self, message: Message) -> None:
        self.turn.clear()
        self._calls.clear()
        for part in message.parts:
            match part:
                case TextPart(text):
                    self.said.append(flat_text(text[:MOST_OF_ONE]))
                    self._said_size += len(self.said[-1])
                case ResourcePart(uri, name, text) if text:
                    named = f"the attached file `{one_line(name or uri, SHOWN_NAME)}`"
                    self._add(DataSource(Origin.WORKSPACE, named, text[:MOST_OF_ONE], given=True))
                case _:
                    pass
        while self._said_size > MOST_CHARACTERS:
            self._said_size -= len(self.said.popleft())

    def _add(self, source: DataSource) -> None:
        self.turn.append(source)
        self._sources.append(source)
        self._size += len(source.text)
        while self._size > MOST_CHARACTERS:
            self._size -= len(self._sources.popleft().text)
            if self._ready:
                self._ready.popleft()

    def _source(self, call: ToolCallView, origin: Origin, text: str) -> DataSource | None:
        kept = text[:MOST_OF_ONE]
        match origin:
            case Origin.WEB:
                return DataSource(origin, f"the page {self._argument(call, 'url')}", kept)
            case Origin.MCP:
                server = call.title.partition(": ")[0]
                return DataSource(origin, f"the MCP server `{one_line(server, SHOWN_NAME)}`", kept, server=server)
            case Origin.AGENT if call.kind is not ToolKind.EDIT:
                return DataSource(origin, f"the subagent `{self._argument(call, 'name') or 'without a name'}`", kept)
            case Origin.COMMAND:
                line = call.raw_input.get("command")
                ran = line if isinstance(line, str) else ""
                return DataSource(origin, f"the output of `{one_line(ran or call.title, SHOWN_NAME)}`", kept, line=ran)
            case Origin.WORKSPACE if call.name == SKILL_TOOL:
                return self._of_skill(call, kept)
            case Origin.WORKSPACE if call.kind in _READING:
                return self._of_files(call, kept)
            case _:
                return None

    def _of_skill(self, call: ToolCallView, text: str) -> DataSource | None:
        loaded = loaded_in(text)
        if loaded is not None:
            self._skills[loaded[0]] = loaded[1]
        name = loaded[0] if loaded is not None else self._argument(call, "name")
        source = self._skills.get(name)
        if source is None:
            # A list of skills, or a file of one whose instructions were not read.
            return DataSource(Origin.WORKSPACE, "the list of skills", text)
        tier, _, bundle = source.partition(" ")
        by_agent = ", which the agent wrote" if tier == TrustTier.AD_HOC else ""
        named = f"the skill `{name}`" + (f" of the bundle `{bundle}`" if bundle else by_agent)
        return DataSource(
            Origin.WORKSPACE,
            named,
            text,
            of_project=tier == TrustTier.PROJECT,
            of_user=tier in {TrustTier.USER, TrustTier.BUILT_IN},
        )

    def _of_files(self, call: ToolCallView, text: str) -> DataSource:
        asked = call.raw_input.get("path")
        named = [asked] if isinstance(asked, str) and asked else []
        paths = [location.path for location in call.locations] or named or list(self._roots[:1])
        inside = all(self._is_inside(path) for path in paths)
        name = f"the file `{self._shown(paths[0])}`" if paths and (call.locations or named) else "files of the folder"
        return DataSource(Origin.WORKSPACE, name, text, of_project=inside)

    def _is_inside(self, path: str) -> bool:
        if not self._roots:
            return False
        try:
            return is_inside_any(absolute_path(path, self._roots[0]), self._roots)
        except PatternError:
            return False

    def _shown(self, path: str) -> str:
        shown = display_path(path, self._roots[0]) if self._roots and Path(path).is_absolute() else path
        return one_line(shown, SHOWN_NAME)

    @staticmethod
    def _argument(call: ToolCallView, name: str) -> str:
        value = call.raw_input.get(name)
        return one_line(value, SHOWN_NAME) if isinstance(value, str) else ""
