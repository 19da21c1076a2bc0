"""Remembered decisions of the user: their rows, what each reaches in words, and which ones a question offers.

Owns: what an answer stores, and how long that lasts. Must not know: which calls a grant covers (`grant_matching`, which
no start imports), modes, or the event that records a grant (the caller appends `GrantStored` first, in the same
transaction, and passes its `seq`: rule R1).
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import cast

from msgspec import Struct

from pattern_acp.db.columns import integer
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.access import Access, RunCommand
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import PolicyError
from pattern_acp.policy.decision import CLAIMED, ApprovalOption, Decision, GrantScope, Lifetime, PermissionAnswer


class Effect(StrEnum):
    """Effect of a grant."""

    ALLOW = "allow"
    DENY = "deny"


class GrantKind(StrEnum):
    """Subject of a grant; see `decision.GrantScope` for the form of each pattern."""

    COMMAND_PREFIX = "command_prefix"
    EXACT_COMMAND = "exact_command"
    EDIT_FOLDER = "edit_folder"
    EDITS = "edits"
    READ_FOLDER = "read_folder"
    MEMORY_BLOCK = "memory_block"
    SERVER_TOOL = "server_tool"
    FETCH_HOST = "fetch_host"


class Grant(Struct, frozen=True):
    """One remembered answer: an "always" of either kind, and how far it reaches."""

    effect: Effect
    kind: GrantKind
    pattern: str
    lifetime: Lifetime = Lifetime.SESSION


class GrantOwner(Struct, frozen=True):
    """Identity of the project and of the persona that lasting grants belong to; empty for those of a session."""

    project: str = ""
    persona: str = ""

    def of(self, lifetime: Lifetime) -> "GrantOwner":
        """Return the owner of a grant with this lifetime."""
        match lifetime:
            case Lifetime.TURN | Lifetime.SESSION:
                return NOBODY
            case Lifetime.PROJECT:
                return self
            case Lifetime.PERSONA:
                return GrantOwner("", self.persona)


NOBODY = GrantOwner()
"""Owner of the grants that end with their session."""


def load_grants(tx: Transaction, session_id: SessionId, owner: GrantOwner = NOBODY) -> tuple[Grant, ...]:
    """The grants and refusals of a session, and those that last for its project and persona, oldest first.

    Raises:
        PolicyError: a row is not one that this version understands; nothing is allowed on a guess.
    """
    values = {"session_id": session_id, "project": owner.project, "persona": owner.persona}
    rows = tx.all(load_queries("pattern_acp.policy")["load_grants"], values)
    try:
        return tuple(
            Grant(Effect(str(effect)), GrantKind(str(kind)), str(pattern), Lifetime(str(lifetime)))
            for _, effect, kind, pattern, lifetime in rows
        )
    except ValueError as error:
        raise PolicyError(
            "A remembered permission is of a kind that this version does not know; update pattern-acp, start a new "
            "session, or revoke it (`pattern-acp policy grants`)."
        ) from error


def store_grant(
    tx: Transaction, session_id: SessionId, grant: Grant, owner: GrantOwner = NOBODY, *, seq: int, at_ms: int
) -> None:
    """Remember a grant; storing the same one again changes nothing.

    Args:
        tx: the transaction that also appended the event `seq`.
        session_id: the session in which the user answered.
        grant: the grant to remember.
        owner: whose it is, as `GrantOwner.of` says.
        seq: the journal event that records it.
        at_ms: milliseconds since 1970 UTC.
    """
    queries = load_queries("pattern_acp.policy")
    values = {
        "session_id": session_id,
        "effect": grant.effect,
        "kind": grant.kind,
        "pattern": grant.pattern,
        "lifetime": grant.lifetime,
        "project": owner.project,
        "persona": owner.persona,
    }
    if tx.one(queries["has_grant"], values) is None:
        tx.execute(queries["store_grant"], values | {"created_ms": at_ms, "last_seq": seq})


class StoredGrant(Struct, frozen=True):
    """A grant in force, by its number."""

    number: int
    grant: Grant
    owner: GrantOwner
    session_id: SessionId
    persona: str
    """The name of the persona that asked."""
    created_ms: int

    def is_of(self, session_id: SessionId, owner: GrantOwner) -> bool:
        """Return whether it holds in a session of this owner."""
        if self.grant.lifetime is Lifetime.SESSION:
            return self.session_id == session_id
        return self.owner == owner.of(self.grant.lifetime)


def list_grants(tx: Transaction) -> list[StoredGrant]:
    """Every grant and refusal in force, oldest first; those of kinds that this version does not know are left out."""
    found: list[StoredGrant] = []
    for row in tx.all(load_queries("pattern_acp.policy")["list_grants"]):
        number, session_id, effect, kind, pattern, created, lifetime, project, identity, persona = row
        if str(kind) in set(GrantKind) and str(lifetime) in set(Lifetime):
            grant = Grant(Effect(str(effect)), GrantKind(str(kind)), str(pattern), Lifetime(str(lifetime)))
            owner = GrantOwner(str(project), str(identity))
            place = SessionId(str(session_id))
            found.append(StoredGrant(integer(number), grant, owner, place, str(persona), integer(created)))
    return found


def revoke_grant(tx: Transaction, number: int, *, seq: int, at_ms: int) -> None:
    """Take a grant back; `seq` is the event that records it."""
    values = {"id": number, "revoked_ms": at_ms, "last_seq": seq}
    tx.execute(load_queries("pattern_acp.policy")["revoke_grant"], values)


def describe_grant(grant: Grant) -> str:
    """Say what a grant reaches, whole and in one line."""
    words = pattern_words(grant.pattern)
    match grant.kind:
        case GrantKind.COMMAND_PREFIX:
            text = f"`{shlex.join(words)} …`"
        case GrantKind.EXACT_COMMAND:
            text = f"exactly `{words[-1]}` in {words[0]}" if len(words) == 2 else grant.pattern
        case GrantKind.EDIT_FOLDER:
            text = f"edits in {grant.pattern}"
        case GrantKind.EDITS:
            text = "edits"
        case GrantKind.READ_FOLDER:
            text = f"reads in {grant.pattern}"
        case GrantKind.MEMORY_BLOCK:
            text = f"writes to `{words[-1] if words else grant.pattern}`"
        case GrantKind.SERVER_TOOL:
            text = f"`{'/'.join(words[:2])}`"
        case GrantKind.FETCH_HOST:
            text = f"pages of {grant.pattern}"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


@lru_cache(maxsize=4_096)
def pattern_words(pattern: str) -> tuple[str, ...]:
    """The words of a grant's pattern; empty if it is not a list of strings, so that it covers nothing."""
    try:
        words = cast("object", json.loads(pattern))
    except ValueError:
        return ()
    if not isinstance(words, list):
        return ()
    items = cast("list[object]", words)
    return tuple(item for item in items if isinstance(item, str)) if all(isinstance(i, str) for i in items) else ()


def approval_options(
    decision: Decision, accesses: Sequence[Access], *, edits_text: bool = False
) -> tuple[ApprovalOption, ...]:
    """The buttons; the first of each kind has the kind's id and reaches least.

    "Always" answers are offered only if the decision has a scope, and say how far they reach and how long they last. A
    refusal is always among them. `edits_text`: the user may change the text of the call, or refuse it with a reason.
    """
    if decision.rule == CLAIMED:
        return _BESIDE_CLAIMS
    once = "Run once" if any(isinstance(access, RunCommand) for access in accesses) else "Allow once"
    options = [ApprovalOption(PermissionAnswer.ALLOW_ONCE, once)]
    if edits_text:
        options.append(ApprovalOption(PermissionAnswer.ALLOW_EDITED, "Change the text, then allow it"))
    options += [ApprovalOption(answer, scope.label(lifetime)) for answer, scope, lifetime in _offers(decision)]
    if decision.settled_by_trust:
        options.append(ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Allow, and trust the files of this folder"))
    options.append(ApprovalOption(PermissionAnswer.REJECT_ONCE, "Reject"))
    if edits_text:
        options.append(ApprovalOption(PermissionAnswer.REJECT_WITH_REASON, "Reject, with a reason"))
    if lasting := _lasting(decision):
        label = lasting[0].label(Lifetime.SESSION).replace("Always allow", "Never allow", 1)
        options.append(ApprovalOption(PermissionAnswer.REJECT_ALWAYS, label))
    return tuple(options)


_BESIDE_CLAIMS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Continue: edit beside that session"),
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Take over: ask that session, and edit once it gives way"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Wait: leave it alone for now"),
)


def _offers(decision: Decision) -> Iterator[tuple[PermissionAnswer, GrantScope, Lifetime]]:
    """Every "always" that a question offers, and what it stores."""
    lasting = _lasting(decision)
    if lasting:
        yield PermissionAnswer.ALLOW_ALWAYS, lasting[0], Lifetime.SESSION
    for scope in decision.scopes:
        if Lifetime.TURN in scope.lifetimes:
            yield PermissionAnswer.ALLOW_TURN, scope, Lifetime.TURN
    for scope in lasting[1:2]:
        yield PermissionAnswer.ALLOW_EXACT, scope, Lifetime.SESSION
    for answer, lifetime in (
        (PermissionAnswer.ALLOW_PROJECT, Lifetime.PROJECT),
        (PermissionAnswer.ALLOW_PERSONA, Lifetime.PERSONA),
    ):
        if lasting and lifetime in lasting[0].lifetimes:
            yield answer, lasting[0], lifetime


def _lasting(decision: Decision) -> tuple[GrantScope, ...]:
    return tuple(scope for scope in decision.scopes if Lifetime.SESSION in scope.lifetimes)


def grant_for(answer: PermissionAnswer, decision: Decision) -> Grant | None:
    """Return the grant that an answer stores; None for an answer that lasts for this call only."""
    lasting = _lasting(decision)
    if answer is PermissionAnswer.REJECT_ALWAYS and lasting:
        scope = lasting[0]
        return Grant(Effect.DENY, GrantKind(scope.kind), scope.pattern)
    for offered, scope, lifetime in _offers(decision):
        if offered is answer:
            return Grant(Effect.ALLOW, GrantKind(scope.kind), scope.pattern, lifetime)
    return None
