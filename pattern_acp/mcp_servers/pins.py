"""What the person agreed to of a server's tools.

Owns: the rows, and what is new about a tool. Must not know: how the person is asked, or the event that records an
agreement (the caller appends `ServerToolsPinned` first, in the same transaction, and hands over its `seq`: rule R1).
"""

from collections.abc import Mapping

from msgspec import Struct

from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction
from pattern_acp.mcp_servers.catalogue import RemoteTool


class Pin(Struct, frozen=True):
    """A tool as it was agreed to."""

    tool: str
    digest: str
    definition: str


class News(Struct, frozen=True):
    """What the person has not agreed to: a sentence, and the definition that they knew before, if any."""

    sentence: str = ""
    before: str = ""


def pin_of(tool: RemoteTool) -> Pin:
    """The pin of a tool as it is now."""
    return Pin(tool.name, tool.digest, tool.definition)


def news_of(server: str, tool: RemoteTool, pins: Mapping[str, Pin]) -> News:
    """What is new about a tool for the person; an empty sentence when nothing is."""
    if not pins:
        return News(f"It is the first use of the MCP server `{server}` as it is set up now.")
    pin = pins.get(tool.name)
    if pin is None:
        return News(f"The MCP server `{server}` has added this tool since you agreed to its tools.")
    if pin.digest != tool.digest:
        return News(f"The MCP server `{server}` has changed this tool since you agreed to it.", pin.definition)
    return News()


def load_pins(tx: Transaction, server: str, identity: str) -> dict[str, Pin]:
    """The tools of a server that were agreed to, by name.

    Raises:
        DatabaseError: the file cannot be read.
    """
    rows = tx.all(load_queries("pattern_acp.mcp_servers")["load_pins"], {"server": server, "identity": identity})
    return {str(tool): Pin(str(tool), str(digest), str(definition)) for tool, digest, definition in rows}


def store_pin(tx: Transaction, server: str, identity: str, pin: Pin, *, seq: int, at_ms: int) -> None:
    """Keep a tool as it was agreed to.

    Raises:
        DatabaseError: the file cannot be written.
    """
    values = {
        "server": server,
        "identity": identity,
        "tool": pin.tool,
        "digest": pin.digest,
        "definition": pin.definition,
        "pinned_ms": at_ms,
        "last_seq": seq,
    }
    tx.execute(load_queries("pattern_acp.mcp_servers")["store_pin"], values)
