"""Recorded decisions and standing permissions: /why, /permissions, and their verbs of `pattern-acp policy`.

Owns: the commands, and what they answer. Must not know: how a decision is reached.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.config.settings import PolicyRule
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, SessionId, local_minute
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.journal.events import (
    Event,
    GrantRevoked,
    PermissionAnswered,
    PermissionDecided,
    RecordedClaim,
    RecordedPath,
    RecordedPolicy,
    ToolCallStarted,
)
from pattern_acp.journal.history import with_subagent_events
from pattern_acp.journal.reader import read_stream
from pattern_acp.journal.sessions import get_session
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.forgotten import MARK
from pattern_acp.policy.decision import Lifetime
from pattern_acp.policy.grants import StoredGrant, describe_grant, list_grants, revoke_grant
from pattern_acp.session.opening import refresh_grants
from pattern_acp.session.trust import reread_trust
from pattern_acp.turn.recorded_policy import accesses_of, decide_anew, difference, digest_of_policy
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.session import Session


NAMED_CALLS = 5
"""Calls that the answer names where the one that was asked for is not found."""

SHOWN_HASH = 12
"""Characters of a policy's hash that are shown."""


class ExplainedDecision(Result, frozen=True):
    """The decision on a call."""

    title: str
    decided: PermissionDecided
    mode: str = ""
    answer: str = ""
    words: str = ""
    """The sentence that the user wrote with their answer."""

    @property
    def document(self) -> Sequence[Part]:
        """A row for each thing that is known of it."""
        decided = self.decided
        rows = [
            ("Call", f"{self.title} (`{decided.call_id}`)"),
            ("Decision", decided.verdict),
            ("Reason", decided.reason),
            ("Layer", decided.layer),
            ("Rule", decided.source or decided.rule),
            ("Mode", self.mode),
            ("Sandbox", decided.sandbox),
            ("Then", "; ".join(filter(None, (_left(decided), _on(decided), _hour(decided))))),
            ("Led to", ", ".join(f"`{one.path}` → `{one.real}`" for one in _led(decided))),
            ("Claimed", ", ".join(f"`{one.path}` by {one.session}" for one in _claims(decided))),
            ("Your answer", self.answer.replace("_", " ")),
            ("Your words", self.words),
            ("Would change it", decided.changes),
            ("Policy", f"`{decided.policy[:SHOWN_HASH]}`" if decided.policy else ""),
        ]
        return (Table((Column(""), Column("")), tuple(row for row in rows if row[1])),)


def _left(decided: PermissionDecided) -> str:
    return f"{decided.budget} left" if decided.budget else ""


def _on(decided: PermissionDecided) -> str:
    return f"on {decided.git}" if decided.git else ""


def _hour(decided: PermissionDecided) -> str:
    hour = decided.basis.hour if decided.basis is not None else None
    return f"after {hour:02}:00" if hour is not None else ""


def _led(decided: PermissionDecided) -> Sequence[RecordedPath]:
    return decided.basis.paths if decided.basis is not None else ()


def _claims(decided: PermissionDecided) -> Sequence[RecordedClaim]:
    return decided.basis.claims if decided.basis is not None else ()


class Verified(Result, frozen=True):
    """The decisions of a session, decided again."""

    session: str
    checked: int
    unrecorded: int = 0
    """Decisions of earlier releases, which did not record what they were made from."""
    redacted: int = 0
    """Decisions on calls whose words were taken out."""
    call: str = ""
    """The first call on which policy decides otherwise."""
    differs: str = ""

    @property
    def document(self) -> Sequence[Part]:
        """The counts of what was checked, or the first that differs."""
        if self.differs:
            style = "error"
            return (Paragraph(f"The decision on {self.call} differs: {self.differs}.", style),)
        words = [f"{plural(self.checked, 'decision')} as the recorded policy decides."]
        if self.unrecorded:
            words.append(f"{plural(self.unrecorded, 'decision')} of an earlier release cannot be checked.")
        if self.redacted:
            words.append(f"{plural(self.redacted, 'decision')} cannot be checked, since words were taken out.")
        return (Paragraph(" ".join(words)),)

    @property
    def is_failure(self) -> bool:
        """True when a decision differs."""
        return bool(self.differs)


async def run_why(shared: "Constellation", session_id: SessionId, argument: str) -> Result:
    """Explain the decision on a call: the last one, or the one whose id begins with the argument.

    Raises:
        CommandMisusedError: no decision on such a call is recorded.
    """
    recorded = await shared.database.read(lambda tx: read_stream(tx, session_id))
    events = list(with_subagent_events(one.event for one in recorded))
    decided = [one for one in events if isinstance(one, PermissionDecided)]
    wanted = argument.strip().strip("`")
    found = [one for one in decided if one.call_id.startswith(wanted)]
    titles = {one.call.call_id: one.call.title for one in events if isinstance(one, ToolCallStarted)}
    if not found:
        last = dict.fromkeys(f"`{one.call_id}` ({titles.get(one.call_id, '')})" for one in reversed(decided))
        named = ", ".join([*last][:NAMED_CALLS])
        known = f" The last ones are {named}." if named else ""
        raise CommandMisusedError(f"Nothing was decided on such a call in this session.{known}")
    one = found[-1]
    policy = _policies(events).get(one.policy)
    answers = [each for each in events if isinstance(each, PermissionAnswered) and each.call_id == one.call_id]
    mode = policy.mode if policy is not None else ""
    answer, words = (answers[-1].answer, answers[-1].words) if answers else ("", "")
    return ExplainedDecision(titles.get(one.call_id, ""), one, mode, answer, words)


async def verify_decisions(database: Database, session_id: str) -> Verified:
    """Decide each recorded case of a session again, up to the first that differs.

    Raises:
        MissingSessionError: there is no such session.
        PolicyError: a newer version recorded a case.
    """
    known = SessionId(session_id)
    if await database.read(lambda tx: get_session(tx, known)) is None:
        raise MissingSessionError(session_id)
    recorded = await database.read(lambda tx: read_stream(tx, known))
    events = list(with_subagent_events(one.event for one in recorded))
    policies = _policies(events)
    checked = unrecorded = redacted = 0
    for one in events:
        if not isinstance(one, PermissionDecided):
            continue
        policy = policies.get(one.policy)
        if not one.policy or policy is None:
            unrecorded += 1
            continue
        if digest_of_policy(policy) != one.policy:
            if not _is_masked(policy):
                return Verified(session_id, checked, call=one.call_id, differs="its policy is not the one of its hash")
            redacted += 1
            continue
        texts = [word for access in one.accesses for word in access.words]
        texts += [text for led in (one.basis.paths if one.basis else ()) for text in (led.path, led.folder, led.real)]
        if any(MARK in text for text in texts):
            redacted += 1
            continue
        differs = difference(one, decide_anew(policy, accesses_of(one.accesses), one.basis))
        if differs:
            return Verified(session_id, checked, unrecorded, redacted, one.call_id, differs)
        checked += 1
    return Verified(session_id, checked, unrecorded, redacted)


def _policies(events: Sequence[Event]) -> dict[str, RecordedPolicy]:
    return {
        one.policy: one.snapshot for one in events if isinstance(one, PermissionDecided) and one.snapshot is not None
    }


def _is_masked(policy: RecordedPolicy) -> bool:
    patterns = [one.pattern for one in (*policy.grants, *policy.rules)]
    patterns += [one.when for one in policy.rules]
    return any(MARK in text for text in (*policy.roots, *policy.paths, *patterns))


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
    verb, rest = first_word(argument)
    policy, database = session.state.policy, session.constellation.database
    if verb not in {"", "list", "revoke"} or (verb == "revoke") != rest.strip().isdecimal():
        raise CommandMisusedError("Say /permissions, or /permissions revoke NUMBER.")
    in_force = [one for one in await database.read(list_grants) if one.is_of(session.session_id, policy.owner)]
    if verb != "revoke":
        await reread_trust(session.dialogue)
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
