"""Breaks of the cached prefix: requests that do not begin with the one before, which providers serve from their cache.

Owns: finding what broke that, and naming it. Must not know: where a wire puts its cache marks (each encoder does).
"""

from msgspec import Struct, field

from pattern_acp.domain.messages import Message, begins_with
from pattern_acp.providers.base import ProviderRequest, ToolForm, ToolSpec


class BreakDetector(Struct):
    """Watches the requests of one session."""

    requests: int = 0
    """Those that were seen."""
    breaks: int = 0
    """Those that did not begin with the one before."""
    last: str = ""
    """The change at the newest break, in words."""
    since: int = 0
    """Requests behind it."""
    _before: ProviderRequest | None = None
    _expected: str = field(default="")

    def expect(self, reason: str) -> None:
        """Say why the history of the next request will not continue from the one before."""
        self._expected = reason

    def saw(self, request: ProviderRequest, *, calls_tools: bool = True) -> str:
        """Take in a request that is sent; what changed at its beginning, or nothing.

        `calls_tools` says of its model whether it has native calls, so what a form of tools left to it comes to.
        """
        before, self._before = self._before, request
        reason, self._expected = self._expected, ""
        self.requests += 1
        changed = changes(before, request, calls_tools=calls_tools) if before is not None else ()
        if not changed:
            self.since += 1
            return ""
        named = ", ".join(f"history ({reason})" if part == "history" and reason else part for part in changed)
        self.breaks, self.last, self.since = self.breaks + 1, named, 0
        return named

    def summary(self) -> str:
        """For /status: how well the prefix holds; empty before there is anything to compare."""
        if self.requests < 2:
            return ""
        if not self.breaks:
            return f"every one of {self.requests:,} requests began with the one before"
        times = "once" if self.breaks == 1 else f"{self.breaks:,} times"
        ago = {0: "in the last one", 1: "one request ago"}.get(self.since, f"{self.since:,} requests ago")
        return f"broken {times} in {self.requests:,} requests, {ago}: {self.last}"


def changes(before: ProviderRequest, now: ProviderRequest, *, calls_tools: bool = True) -> tuple[str, ...]:
    """List the changed parts of the prefix: `model`, `tools`, `system`, `history`, in the order caches are built in."""
    changed: list[str] = []
    if now.model != before.model:
        changed.append("model")
    if now.tools != before.tools:
        changed.append(f"tools ({_tool_changes(before.tools, now.tools)})")
    elif now.tool_form is not before.tool_form and (
        (as_text := _as_text(now, calls_tools)) is not _as_text(before, calls_tools)
    ):
        changed.append("tools (now as text)" if as_text else "tools (now native)")
    if now.system != before.system:
        changed.append("system")
    if not _begins_with(now.messages, before.messages):
        changed.append("history")
    return tuple(changed)


def _as_text(request: ProviderRequest, calls_tools: bool) -> bool:  # noqa: FBT001 - what is known, not a switch
    return request.tool_form is ToolForm.TEXT or (request.tool_form is ToolForm.AUTO and not calls_tools)


def _begins_with(now: tuple[Message, ...], before: tuple[Message, ...]) -> bool:
    if begins_with(now, before):
        return True
    if len(now) < len(before):
        return False
    # Ids are ours: a conversation that is read back has others for results, and the same content.
    return all(
        one is other or (one.role, one.parts) == (other.role, other.parts)
        for one, other in zip(now, before, strict=False)
    )


def _tool_changes(before: tuple[ToolSpec, ...], now: tuple[ToolSpec, ...]) -> str:
    was, names = {tool.name for tool in before}, {tool.name for tool in now}
    parts = [f"+{name}" for name in sorted(names - was)] + [f"-{name}" for name in sorted(was - names)]
    if not parts:
        was_specs = {tool.name: tool for tool in before}
        parts = [tool.name for tool in now if was_specs[tool.name] != tool]
    return " ".join(parts[:6]) + (" ..." if len(parts) > 6 else "") if parts else "order"
