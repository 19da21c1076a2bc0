"""Definitions that a session has once it uses them: tools of MCP servers, kinds of subagents, templates, groups.

Owns: their identities, that each is recorded and stored before its first use, and what differs since. A session that is
opened again offers the tools that it had, to the byte, until the user adopts today's; subagents and new blocks follow
what it had, too. Must not know: whether a call of a changed tool is allowed (`tools/mcp_toolbox.py` asks).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec
from msgspec import Struct

from pattern_acp.context.instructions import subagent_source
from pattern_acp.definitions.identity import DefinitionSource, identity_of
from pattern_acp.definitions.sources import KeptSource, read_sources
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.events import PinnedDefinition, SeenDefinition
from pattern_acp.mcp_servers.catalogue import RemoteTool
from pattern_acp.memory.templates.loading import Template, template_file, template_of
from pattern_acp.session.definition_pins import kind_of, name_of, other_pins, record_pins
from pattern_acp.session.state import Drift

if TYPE_CHECKING:
    from pathlib import Path

    from pattern_acp.mcp_servers.server import Server
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.session import Session

MCP, SUBAGENT, TEMPLATE, GROUP = "mcp", "subagent", "template", "group"
"""The kinds of these definitions."""

SUBAGENTS = "subagents"
"""Folder beside `config.toml` in which a user may keep rules for kinds of subagents, one Markdown file each."""

NAMED = 6
"""Tools that a sentence names for each kind of change."""

SERVER_TIER = "server"
"""The tier of a tool set: that of no file."""


class UsedDefinition(Struct, frozen=True):
    """One of these definitions as it is now."""

    source: DefinitionSource
    tier: str

    @property
    def pin(self) -> PinnedDefinition:
        """Its record in a session."""
        return PinnedDefinition(identity_of(self.source), self.source.symbol, self.tier)

    @property
    def text(self) -> str:
        """The text that the user reads and compares."""
        if self.source.symbol.startswith(f"{MCP}/"):
            return "\n\n".join(tool.definition for tool in tools_in(self.source))
        return "\n\n".join(content.decode("utf-8", "replace") for content in self.source.files.values())


def tools_of(server: "Server") -> UsedDefinition:
    """The tools of a server as they are now, each a file; those by which an editor serves its files are left out."""
    files = {f"{tool.name}.json": msgspec.json.encode(tool) for tool in server.catalogue.tools if tool.files is None}
    return UsedDefinition(DefinitionSource(f"{MCP}/{server.name}", files), SERVER_TIER)


def tools_in(source: DefinitionSource) -> tuple[RemoteTool, ...]:
    """The tools of a set; one that cannot be read is left out."""
    tools: list[RemoteTool] = []
    for content in source.files.values():
        try:
            tools.append(RemoteTool(**msgspec.json.decode(content)))
        except (msgspec.DecodeError, TypeError):
            continue
    return tuple(tools)


def offer_kept_tools(session: "Session") -> None:
    """Have a session that is opened again offer the tools of servers that it had."""
    if session.state.settings.definitions.follow == "adopt":
        return
    for pin in session.state.pins:
        kept = source_under(pin, session.state.sources) if kind_of(pin) == MCP else None
        if kept is not None:
            session.mcp.toolbox.kept[name_of(pin)] = tools_in(kept)


async def used_today(session: "Session") -> dict[str, UsedDefinition]:
    """Those that the session has, as they are today, and the tool sets of the servers that answer now; by symbol."""
    found = [tools_of(server) for server in session.mcp.servers.ready]
    files = [pin for pin in session.state.pins if kind_of(pin) in {SUBAGENT, TEMPLATE}]
    if files:
        found += await anyio.to_thread.run_sync(_read, files, session.constellation)
    if (groups := session.trust.today.groups) is not None:
        names = {name_of(pin) for pin in session.state.pins if kind_of(pin) == GROUP}
        found += [UsedDefinition(each.source, TrustTier.PROJECT) for each in groups.usable if each.name in names]
    return {each.source.symbol: each for each in found if each.source.files}


def _read(pins: Iterable[PinnedDefinition], shared: "Constellation") -> list[UsedDefinition]:
    return [
        subagent_kind(name_of(pin), shared)
        if kind_of(pin) == SUBAGENT
        else memory_template(name_of(pin), shared.template_folder)
        for pin in pins
    ]


def subagent_kind(kind: str, shared: "Constellation") -> UsedDefinition:
    """The rules for subagents of a kind, as they are now."""
    config = shared.own_instructions.parent if shared.own_instructions is not None else None
    source, is_own = subagent_source(kind, config / SUBAGENTS if config is not None else None)
    return UsedDefinition(source, TrustTier.USER if is_own else TrustTier.BUILT_IN)


def memory_template(name: str, folder: "Path | None") -> UsedDefinition:
    """A template of memory as it is now; one that is gone has no file."""
    content, is_own = template_file(name, folder)
    files = {f"{name}.toml": content} if content is not None else {}
    return UsedDefinition(
        DefinitionSource(f"{TEMPLATE}/{name}", files), TrustTier.USER if is_own else TrustTier.BUILT_IN
    )


async def use_definition(session: "Session", found: UsedDefinition, *, agreed: bool = False) -> DefinitionSource:
    """The definition that the session uses instead of today's, which it records and keeps if it is its first use.

    What the user has `agreed` to as it is now counts at once, unless the session is to have what it had.

    Raises:
        DatabaseError: it could not be read or recorded.
    """
    pins, pin = session.state.pins, found.pin
    known = next((each for each in pins if each.symbol == pin.symbol), None)
    takes = agreed and session.state.settings.definitions.follow != "keep"
    if known is None or (takes and known.identity != pin.identity):
        others = (*(each for each in other_pins(pins) if each.symbol != pin.symbol), pin)
        await record_pins(session, session.trust.definitions, others=others, sources=[(found.source,)])
        return found.source
    kept = None if known.identity == pin.identity else await kept_source(session, known)
    return kept or found.source


async def template_in_use(session: "Session", name: str) -> Template | None:
    """The template that the session makes blocks of under this name; None where there is no file of it.

    Raises:
        ConfigError: it cannot be used.
        DatabaseError: it could not be read or recorded.
    """
    found = await anyio.to_thread.run_sync(memory_template, name, session.constellation.template_folder)
    source = await use_definition(session, found) if found.source.files else found.source
    return next((template_of(content, file) for file, content in source.files.items()), None)


async def kept_source(session: "Session", pin: PinnedDefinition) -> DefinitionSource | None:
    """The stored source of one of these definitions; None when it was forgotten, or is that of another.

    Raises:
        DatabaseError: it could not be read.
    """
    sources = session.state.sources
    if pin.identity not in sources:
        sources |= await session.constellation.database.read(lambda tx: read_sources(tx, (pin.identity,)))
    return source_under(pin, sources)


def source_under(pin: PinnedDefinition, sources: Mapping[str, KeptSource]) -> DefinitionSource | None:
    """The one of some stored sources that a record names; None when it is not there, without files, or of another."""
    kept = sources.get(pin.identity)
    own = kept.definitions[0] if kept is not None and kept.symbol == pin.symbol else None
    return own if own is not None and own.files else None


async def follow_used(session: "Session") -> tuple[Drift, ...]:
    """Record the tool sets that the session did not have, and return how today's definitions differ from what it has.

    Raises:
        DatabaseError: they could not be read or recorded.
    """
    state, servers = session.state, session.mcp.servers.servers
    pins = {pin.symbol: pin for pin in other_pins(state.pins)}
    if not pins and not servers:
        return ()
    today, follow, kept = await used_today(session), state.settings.definitions.follow, session.mcp.toolbox.kept
    named = {f"{MCP}/{server.name}" for server in servers}
    fresh = {symbol: each.pin for symbol, each in today.items() if symbol not in pins}
    gone = [pin for symbol, pin in pins.items() if kind_of(pin) == MCP and symbol not in named]
    drift = [
        Drift(
            SeenDefinition(pin.symbol, "gone"),
            f"The MCP server {name_of(pin)}, whose tools this session had, is not set up any more.",
            counts=True,
        )
        for pin in gone
    ]
    for symbol, pin in pins.items():
        now, is_set = today.get(symbol), kind_of(pin) == MCP
        if now is None or now.pin.identity == pin.identity:
            if now is not None and is_set:
                kept.pop(name_of(pin), None)
            continue
        then = await kept_source(session, pin)
        # While it runs, the model reads what changed, and each changed tool asks before its next use.
        is_running = is_set and follow == "ask" and name_of(pin) not in kept
        counts = follow == "adopt" or is_running
        drift.append(
            Drift(SeenDefinition(symbol, "changed", now.pin.identity), _sentence(pin, then, now, counts=counts), counts)
        )
        if counts:
            fresh[symbol] = now.pin
        elif then is not None and is_set:
            kept[name_of(pin)] = tools_in(then)
    if fresh or gone:
        left = {pin.symbol for pin in gone}
        others = ({symbol: pin for symbol, pin in pins.items() if symbol not in left} | fresh).values()
        sources = [(today[symbol].source,) for symbol in fresh]
        await record_pins(session, session.trust.definitions, others=tuple(others), sources=sources)
    return tuple(drift)


def _sentence(pin: PinnedDefinition, then: DefinitionSource | None, now: UsedDefinition, *, counts: bool) -> str:
    verb = "which counts from now on" if counts else "and this session continues with what it had"
    if kind_of(pin) == MCP:
        changes = _changes(then.files if then is not None else {}, now.source.files)
        return f"The tools of the MCP server {name_of(pin)} have changed ({changes}), {verb}."
    kind = kind_of(pin)
    what = "kind of subagent" if kind == SUBAGENT else kind
    return f"The {what} {name_of(pin)} has changed, {verb}."


def _changes(then: Mapping[str, bytes], now: Mapping[str, bytes]) -> str:
    words = {
        "new": [name for name in now if name not in then],
        "changed": [name for name in now if name in then and then[name] != now[name]],
        "gone": [name for name in then if name not in now],
    }
    return "; ".join(f"{word}: {_shown(names)}" for word, names in words.items() if names)


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(one_line(name.removesuffix(".json"), 40) for name in names[:NAMED]) + more
