"""/trust: what this folder brings along, whether it is trusted, and changing that.

Owns: the command's words. Must not know: how a decision is stored.
"""

from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.ids import TurnId
from pattern_acp.session.trust import HOW_TO_TRUST, decide_trust, ensure_trust
from pattern_acp.trust.records import Agreement, count_parts, describe_parts, list_agreements

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


async def run_trust(session: "Session", argument: str) -> str:
    """Show what the folder offers and ask when nobody agreed; `list` shows all trusted folders, `revoke` takes it back.

    Raises:
        InvalidRequestError: there is no such verb.
    """
    if argument == "list":
        return await _list(session)
    if argument == "revoke":
        return await _revoke(session)
    if argument:
        raise CommandMisusedError("Say /trust, /trust list or /trust revoke.")
    trust = session.trust
    trust.answered = {digest: trusted for digest, trusted in (trust.answered or {}).items() if trusted}
    granted = await ensure_trust(session, turn_of(session), used=True)
    parts = trust.offer.parts
    if not parts:
        return "This folder brings no hooks, MCP servers, checks, commands, skills or language servers."
    state = "trusted" if granted else f"not trusted, so nothing of it is used. {HOW_TO_TRUST}"
    return f"This folder's {count_parts(parts)}: {state}\n\n{describe_parts(parts)}"


def turn_of(session: "Session") -> TurnId:
    """The turn that the command was typed in."""
    return session.memory.turn_id or TurnId("")


async def _list(session: "Session") -> str:
    def read(tx: Transaction) -> tuple[Agreement, ...]:
        return list_agreements(tx)

    agreements = await session.constellation.database.read(read)
    if not agreements:
        return "No folder is trusted."
    return "\n".join(f"- `{each.root}`: {count_parts(each.parts)}" for each in agreements)


async def _revoke(session: "Session") -> str:
    trust, shared = session.trust, session.constellation
    await decide_trust(shared.database, trust.root, trust.offer.parts, "revoked", at_ms=shared.clock.now_ms())
    trust.answered = {trust.digest: False}
    await ensure_trust(session, turn_of(session))
    return "This folder is not trusted any more; its hooks, servers, checks, commands and skills are not used."
