"""Permissions of the user that hold, shown and taken back: /permissions and `pattern-acp policy grants`.

Owns: both verbs, and what they answer. Must not know: how a decision is reached.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.config.settings import PolicyRule
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock, local_minute
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.events import GrantRevoked
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.policy.decision import Lifetime
from pattern_acp.policy.grant_matching import StoredGrant, describe_grant, list_grants, revoke_grant
from pattern_acp.session.opening import refresh_grants
from pattern_acp.session.trust import reread_trust
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

_LASTS = {Lifetime.SESSION: "this session", Lifetime.PROJECT: "project", Lifetime.PERSONA: "everywhere"}


class Permissions(Result, frozen=True):
    """The grants in force, and in a session its mode, its rules and the trust of its folder."""

    grants: tuple[StoredGrant, ...] = ()
    mode: str = ""
    rules: tuple[PolicyRule, ...] = ()
    folder: str = ""
    """Parts that the session's folder brings, and whether they are trusted."""
    how: str = "`pattern-acp policy grants revoke NUMBER` takes one back."

    @property
    def document(self) -> Sequence[Part]:
        """The mode, the folder, the rules, and a line for each grant."""
        parts: list[Part] = []
        if self.mode:
            parts.append(Paragraph(f"Mode `{self.mode}`, {plural(len(self.rules), 'rule')} in config.toml."))
        if self.folder:
            parts.append(Paragraph(f"This folder: {self.folder} (`/trust`)."))
        if self.rules:
            rules = tuple((str(rule), rule.layer, rule.reason) for rule in self.rules)
            parts.append(Table((Column("Rule", code=True), Column("Of"), Column("Reason")), rules))
        if not self.grants:
            parts.append(Paragraph("Nothing is allowed or refused for longer than one call."))
            return parts
        titles = ("Number", "Answer", "What", "For", "Project", "Persona", "Since")
        columns = tuple(Column(title, right=title == "Number") for title in titles)
        rows = tuple(
            (
                str(each.number),
                f"{'Always' if each.grant.effect == 'allow' else 'Never'} allow",
                describe_grant(each.grant),
                _LASTS[each.grant.lifetime],
                each.owner.project,
                each.persona if each.owner.persona else "",
                local_minute(each.created_ms),
            )
            for each in self.grants
        )
        used = [place for place in range(len(titles)) if any(row[place] for row in rows)]
        parts.append(
            Table(tuple(columns[place] for place in used), tuple(tuple(row[place] for place in used) for row in rows))
        )
        parts.append(Paragraph(self.how))
        return parts

    @property
    def value(self) -> object:
        """Each grant with its number."""
        return [
            {
                "number": each.number,
                "effect": each.grant.effect,
                "kind": each.grant.kind,
                "pattern": each.grant.pattern,
                "what": describe_grant(each.grant),
                "lifetime": each.grant.lifetime,
                "project": each.owner.project,
                "persona": each.persona,
                "persona_identity": each.owner.persona,
                "session": each.session_id,
                "created_ms": each.created_ms,
            }
            for each in self.grants
        ]


class Revoked(Result, frozen=True):
    """A grant that was taken back."""

    number: int
    what: str
    effect: str

    @property
    def document(self) -> Sequence[Part]:
        """A sentence."""
        was = "allowed" if self.effect == "allow" else "refused"
        return (Paragraph(f"Revoked {self.number}: {self.what} is no longer {was}."),)


class GrantDesk(Struct, frozen=True):
    """Dependencies of both verbs outside a session."""

    database: Database
    clock: Clock


async def list_lasting(desk: GrantDesk) -> Permissions:
    """List the grants that outlive their sessions, of every project and persona."""
    return Permissions(tuple(one for one in await desk.database.read(list_grants) if one.owner.persona))


async def revoke(desk: GrantDesk, number: int) -> Revoked:
    """Take a grant of any session, project or persona back.

    Raises:
        CommandMisusedError: no grant in force has this number.
    """
    found = _numbered(await desk.database.read(list_grants), number, "pattern-acp policy grants")
    event, now = _revocation(found), desk.clock.now_ms()

    def write(tx: Transaction) -> None:
        seq = append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now).seq
        revoke_grant(tx, number, seq=seq, at_ms=now)

    await desk.database.write(write)
    return Revoked(number, describe_grant(found.grant), found.grant.effect)


async def run_permissions(session: "Session", argument: str) -> Result:
    """Show what is allowed and refused in this session, or take one of it back.

    Raises:
        CommandMisusedError: there is no such verb, or no grant of this session has the number.
    """
    verb, _, rest = argument.strip().partition(" ")
    policy, database = session.state.policy, session.constellation.database
    if verb not in {"", "list", "revoke"} or (verb == "revoke") != rest.strip().isdecimal():
        raise CommandMisusedError("Say /permissions, or /permissions revoke NUMBER.")
    in_force = [one for one in await database.read(list_grants) if one.is_of(session.session_id, policy.owner)]
    if verb != "revoke":
        await reread_trust(session)
        how = "`/permissions revoke NUMBER` takes one back."
        return Permissions(tuple(in_force), policy.mode, policy.rules, session.trust.summary, how)
    found = _numbered(in_force, int(rest), "/permissions")
    await session.recorder.record(NewEvent(_revocation(found), Actor.HUMAN, Origin.PERSON))
    await refresh_grants(session.constellation, session.state)
    return Revoked(found.number, describe_grant(found.grant), found.grant.effect)


def _numbered(grants: Sequence[StoredGrant], number: int, where: str) -> StoredGrant:
    found = next((one for one in grants if one.number == number), None)
    if found is None:
        raise CommandMisusedError(f"No permission in force has the number {number}; `{where}` lists them.")
    return found


def _revocation(found: StoredGrant) -> GrantRevoked:
    grant, owner = found.grant, found.owner
    return GrantRevoked(
        found.number, grant.effect, grant.kind, grant.pattern, grant.lifetime, owner.project, owner.persona
    )
