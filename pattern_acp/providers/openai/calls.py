"""Tool calls from the fragments of a Chat Completions stream.

Owns: telling parallel calls apart for servers that follow the format loosely. Sans I/O.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct, field

from pattern_acp.providers.base import ProviderEvent, ToolCallBegun, ToolCallFragment


class FunctionDelta(msgspec.Struct):
    """The function of a fragment. Some servers send the arguments as an object."""

    name: str | None = None
    arguments: str | dict[str, object] | None = None


class CallDelta(msgspec.Struct):
    """One fragment of a call."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _Call(Struct):
    number: int
    wire_index: int | None
    wire_id: str
    is_begun: bool = False
    waiting: list[str] = field(default_factory=list[str])


class CallAssembler(Struct):
    """Numbers the calls of one answer in the order in which they begin.

    A fragment belongs to the call of its id; else of its index; else to the last call. A new id at a known index is a
    new call, since some servers send whole calls that all have index 0 (Gemini's compatible endpoint); a repeated id is
    not. A call without an id gets one from `id_seed` and its number, so that a replay makes the same.
    """

    id_seed: str
    _calls: list[_Call] = field(default_factory=list[_Call])

    @property
    def count(self) -> int:
        """Calls that have begun."""
        return sum(call.is_begun for call in self._calls)

    def take(self, delta: CallDelta) -> Iterator[ProviderEvent]:
        """Our events for one fragment; a call begins once its name is known."""
        function = delta.function or FunctionDelta()
        call = self._find(delta, has_name=bool(function.name))
        if function.arguments:
            arguments = function.arguments
            call.waiting.append(arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode())
        if function.name and not call.is_begun:
            call.is_begun = True
            yield ToolCallBegun(call.number, call.wire_id or f"{self.id_seed}_{call.number}", function.name)
        if call.is_begun:
            yield from (ToolCallFragment(call.number, text) for text in call.waiting)
            call.waiting.clear()

    def _find(self, delta: CallDelta, *, has_name: bool) -> _Call:
        found = self._known(delta, has_name=has_name)
        if found is not None:
            return found
        call = _Call(len(self._calls), delta.index, delta.id or "")
        self._calls.append(call)
        return call

    def _known(self, delta: CallDelta, *, has_name: bool) -> _Call | None:
        newest_first = self._calls[::-1]
        if delta.id:
            same = next((call for call in newest_first if call.wire_id == delta.id), None)
            if same is not None:
                # One id for several whole calls is a server's mistake; their indexes tell them apart.
                is_other = delta.index is not None and same.wire_index is not None and delta.index != same.wire_index
                return None if is_other else same
            unnamed = next((call for call in newest_first if call.wire_index == delta.index and not call.wire_id), None)
            if unnamed is not None and not unnamed.is_begun:
                unnamed.wire_id = delta.id
                return unnamed
            return None
        if delta.index is not None:
            return next((call for call in newest_first if call.wire_index == delta.index), None)
        # Neither id nor index: a name starts a call, anything else goes on with the last one.
        return newest_first[0] if newest_first and not (has_name and newest_first[0].is_begun) else None
