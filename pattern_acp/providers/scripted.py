"""A provider that plays a script: for tests, demonstrations and benchmarks.

Owns: the script's file format and its playing. Must not know: any network or wire.

A script is a list of turns, one turn for each model request; a turn is a list of steps. As a file it is one JSON list
of turns (a plain list of steps is one turn), one JSON object `{"turns": [...], "chunk": 12, "repeat": true}`, or JSON
Lines with one turn a line. An object may have the turns of subagents too, by their names:
`"subagents": {"lexer": [...]}`. The steps:

    {"text": "…"}                                       answer text
    {"thinking": "…", "signature": "…"}                 a reasoning block; {"redacted": "…"} for a hidden one
    {"tool": "read_file", "arguments": {"path": "…"}}   a tool call; `arguments` may be a string, "id" may be set
    {"usage": {"input_tokens": 10, "output_tokens": 3}} token counts
    {"stop": "end"}                                     a `ProviderStop`, with an optional "detail"; implied at the end
    {"error": "overloaded", "detail": "…"}              one of `ERRORS`
    {"wait_ms": 50}                                     a pause
    {"wait_for": "cancel"}                              a pause without end, to be cancelled
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from msgspec import Struct

from pattern_acp.domain.errors import ConfigError, ProviderError
from pattern_acp.domain.usage import Usage
from pattern_acp.providers import http_errors
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)

ERRORS: Mapping[str, type[ProviderError]] = {
    "connection": http_errors.ProviderConnectionError,
    "stalled": http_errors.ProviderStalledError,
    "overloaded": http_errors.ProviderOverloadedError,
    "auth": http_errors.ProviderAuthError,
    "request": http_errors.ProviderRequestError,
    "context": http_errors.ContextTooLongError,
    "protocol": http_errors.ProviderProtocolError,
    "empty": http_errors.EmptyAnswerError,
}
"""Exceptions for `{"error": NAME}`."""

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""A script is written by hand or by a test; more than this is a wrong path."""


class ScriptGate(Struct, frozen=True):
    """A step that waits until somebody sets `opened`; `reached` is set when the script gets there."""

    reached: anyio.Event
    opened: anyio.Event


class Pause(Struct, frozen=True):
    """A step that waits: milliseconds, or for ever when None."""

    ms: int | None


Step: TypeAlias = ProviderEvent | ProviderError | ScriptGate | Pause
"""One thing a script does. An error is raised, an event is sent, a gate or pause waits."""


class ScriptUsage(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Token counts as a script writes them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0


class ScriptStep(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One step of a script; exactly one of its main keys is set."""

    text: str | None = None
    thinking: str | None = None
    signature: str = ""
    redacted: str | None = None
    tool: str | None = None
    id: str = ""
    arguments: dict[str, object] | str = msgspec.field(default_factory=dict[str, object])
    usage: ScriptUsage | None = None
    stop: str | None = None
    error: str | None = None
    detail: str = ""
    wait_ms: int | None = None
    wait_for: Literal["cancel"] | None = None

    @property
    def argument_text(self) -> str:
        """The call's arguments as the model would write them."""
        if isinstance(self.arguments, str):
            return self.arguments
        return msgspec.json.encode(self.arguments).decode()


class Script(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole script. `chunk` is the number of characters a delta carries (0: the whole text at once)."""

    turns: list[list[ScriptStep]]
    chunk: int = 0
    repeat: bool = False
    subagents: dict[str, list[list[ScriptStep]]] = msgspec.field(default_factory=dict[str, list[list[ScriptStep]]])


def parse_script(data: bytes, name: str) -> Script:
    """Read a script from its file form; `name` is what error sentences call it.

    Raises:
        ConfigError: it is not a script; the sentence says where.
    """
    try:
        if data.lstrip()[:1] == b"{":
            return msgspec.json.decode(data, type=Script)
        return Script(_turns(data))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The script {name} cannot be played: {error}. Its format is in docs/reference/providers.md."
        ) from error


def _turns(data: bytes) -> list[list[ScriptStep]]:
    lines = [line for line in data.splitlines() if line.strip()]
    if len(lines) > 1 and all(line.lstrip()[:1] == b"[" and line.rstrip()[-1:] == b"]" for line in lines):
        return [msgspec.json.decode(line, type=list[ScriptStep]) for line in lines]
    turns = msgspec.json.decode(data, type=list[list[ScriptStep] | ScriptStep])
    steps = [turn for turn in turns if isinstance(turn, ScriptStep)]
    lists = [turn for turn in turns if not isinstance(turn, ScriptStep)]
    return [steps, *lists] if steps else lists


def load_script(path: Path) -> Script:
    """Read a script file. Blocking: call it at start or in a worker thread.

    Raises:
        ConfigError: it cannot be read or is not a script.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from error
    if len(data) > MAX_SCRIPT_BYTES:
        raise ConfigError(f"The script {path} is longer than {MAX_SCRIPT_BYTES} bytes; give the path of a script.")
    return parse_script(data, str(path))


class ScriptedProvider:
    """`Provider` that plays one turn of its script for each request, and stores the requests unless asked not to.

    Call ids count the conversation's calls, so that they stay unique when a later process plays on. A request beyond
    the end is answered with a sentence that says so.
    """

    def __init__(
        self,
        turns: Sequence[Sequence[Step | ScriptStep]],
        *,
        name: str = "scripted",
        chunk: int = 0,
        repeat: bool = False,
        subagents: Mapping[str, Sequence[Sequence[Step | ScriptStep]]] | None = None,
        keeps_requests: bool = True,
    ) -> None:
        """`subagents` are the turns of subagents by name; the cache key identifies their requests.

        A long-lived process does not store requests: each contains the whole conversation so far.
        """
        self._turns = turns
        self._name = name
        self._chunk = chunk
        self._repeat = repeat
        self.requests: list[ProviderRequest] = []
        """Every request so far, in order, when they are stored."""
        self._keeps_requests = keeps_requests
        self._played: Counter[str] = Counter()
        self._subagents = dict(subagents or {})

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return self._name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        turn = self._next_turn(self._player(request))
        if self._keeps_requests:
            self.requests.append(request)
        return _playing(_expand(turn, request, self._chunk))

    def _player(self, request: ProviderRequest) -> str:
        """The name of the subagent whose turns answer a request; empty for the script's own turns."""
        name = request.cache_key.partition("/")[2]
        return name if name in self._subagents else ""

    def _next_turn(self, name: str) -> Sequence[Step | ScriptStep]:
        turns = self._subagents.get(name, self._turns)
        index = self._played[name]
        self._played[name] += 1
        if self._repeat and turns:
            index %= len(turns)
        if index < len(turns):
            return turns[index]
        return (TextDelta("The script has no more turns."),)


@asynccontextmanager
async def _playing(steps: Iterator[Step]) -> AsyncGenerator[AsyncIterator[ProviderEvent], None]:
    async with aclosing(_events(steps)) as events:
        yield events


async def _events(steps: Iterator[Step]) -> AsyncGenerator[ProviderEvent, None]:
    has_calls = False
    for step in steps:
        if isinstance(step, ProviderError):
            raise step
        if isinstance(step, ScriptGate):
            step.reached.set()
            await step.opened.wait()
        elif isinstance(step, Pause):
            await (anyio.sleep_forever() if step.ms is None else anyio.sleep(step.ms / 1000))
        else:
            # A real stream yields to the loop between chunks, and so does this one.
            await anyio.lowlevel.checkpoint()
            has_calls = has_calls or isinstance(step, ToolCallBegun)
            yield step
            if isinstance(step, Stopped):
                return
    yield Stopped(ProviderStop.TOOL_CALLS if has_calls else ProviderStop.END)


def _expand(turn: Sequence[Step | ScriptStep], request: ProviderRequest, chunk: int) -> Iterator[Step]:
    calls_before = sum(len(message.tool_calls) for message in request.messages)
    index = 0
    for step in turn:
        if not isinstance(step, ScriptStep):
            yield step
            continue
        if step.tool is not None:
            call_id = step.id or f"call_{calls_before + index + 1}"
            yield ToolCallBegun(index, call_id, step.tool)
            for piece in _pieces(step.argument_text, chunk):
                yield ToolCallFragment(index, piece)
            index += 1
        else:
            yield from _plain_steps(step, chunk)


def _plain_steps(step: ScriptStep, chunk: int) -> Iterator[Step]:
    if step.text is not None:
        yield from (TextDelta(piece) for piece in _pieces(step.text, chunk))
    elif step.thinking is not None or step.redacted is not None:
        yield from (ThinkingDelta(piece) for piece in _pieces(step.thinking or "", chunk))
        yield ThinkingEnded(step.signature, step.redacted or "")
    elif step.usage is not None:
        counts = step.usage
        yield UsageKnown(
            Usage(
                counts.input_tokens,
                counts.output_tokens,
                counts.cache_read_tokens,
                counts.cache_write_tokens,
                counts.thinking_tokens,
            )
        )
    elif step.error is not None:
        yield _error(step.error, step.detail)
    elif step.stop is not None:
        yield _stop(step.stop, step.detail)
    else:
        yield Pause(None if step.wait_for else step.wait_ms or 0)


def _pieces(text: str, chunk: int) -> Iterator[str]:
    size = chunk if chunk > 0 else max(len(text), 1)
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _error(name: str, detail: str) -> ProviderError:
    kind = ERRORS.get(name)
    if kind is None:
        return http_errors.ProviderRequestError(f'The script knows no error "{name}"; use one of: {", ".join(ERRORS)}.')
    return kind(detail or f"The script says: {name}.")


def _stop(name: str, detail: str) -> Step:
    if name not in tuple(ProviderStop):
        return http_errors.ProviderRequestError(
            f'The script knows no stop "{name}"; use one of: {", ".join(ProviderStop)}.'
        )
    return Stopped(ProviderStop(name), detail)
