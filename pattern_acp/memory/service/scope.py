"""Whose memory is used, by whom, under which rules.

Owns: these types. Must not know: how anything is read or written.
"""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import IdFactory, SessionId, ToolCallId, TurnId
from pattern_acp.memory.blocks import SHARED_OWNER, BlockSpec, Isolation, MemoryFork, Scope, default_blocks, owner_in
from pattern_acp.memory.edits import Authoring
from pattern_acp.memory.templates import Templates
from pattern_acp.memory.write_validation import SecretRule


class MemoryScope(Struct, frozen=True):
    """Whose memory a session uses: a persona's name, a project key (`memory.blocks.project_key`), the session.

    With a `fork`, the owners are those of the fork.
    """

    persona: str
    project_key: str
    session_id: SessionId
    fork: MemoryFork | None = None

    @property
    def lasting(self) -> "MemoryScope":
        """The memory that its fork was forked from; the same for one without."""
        return self if self.fork is None else replace(self, fork=self.fork.within)

    @property
    def owners(self) -> tuple[tuple[Scope, str], ...]:
        """The owners whose blocks the session sees, in the order they are shown."""
        return tuple((scope, self.owner_of(scope)) for scope in (Scope.PERSONA, Scope.PROJECT))

    @property
    def sources(self) -> tuple[tuple[Scope, str], ...]:
        """All owners whose facts the session sees: in a fork, those that it was forked from, too."""
        return self.owners if self.fork is None else (*self.owners, *self.lasting.sources)

    def owner_of(self, scope: Scope) -> str:
        """The owner of new things of a scope."""
        if self.fork is not None:
            return owner_in(self.lasting.owner_of(scope), self.fork.id)
        return {Scope.SHARED: SHARED_OWNER, Scope.PROJECT: self.project_key, Scope.PERSONA: self.persona}[scope]


class Writer(Struct, frozen=True):
    """Who writes through a `ConstellationMemory`, and where the words are from."""

    actor: Actor
    origin: Origin


PERSONA = Writer(Actor.PERSONA, Origin.MODEL)
"""The agent, through its tools."""

PERSON = Writer(Actor.HUMAN, Origin.PERSON)
"""The user, as with /remember."""

IMPORT = Writer(Actor.IMPORT, Origin.WORKSPACE)
"""A file that the user imported."""

PROGRAM = Writer(Actor.SYSTEM, Origin.MEMORY)
"""Writes that nobody asked for."""


class MemoryRules(Struct, frozen=True):
    """The settings of memory. `templates` is the user's folder of templates, which need not exist."""

    isolation: Isolation = Isolation.NONE
    secrets: SecretRule = SecretRule.BLOCK
    templates: Path | None = None
    reviews_project: bool = False
    """True if the user is asked before the agent changes what the project decided (`memory.review`)."""

    def defaults(self, owner: MemoryScope) -> tuple[BlockSpec, ...]:
        """The blocks that have to exist: none of a persona that the project does not see, or where there is none."""
        specs = [
            replace(spec, key=replace(spec.key, owner=owner.owner_of(spec.key.scope)))
            for spec in default_blocks(owner.persona, owner.project_key)
        ]
        hidden = {Scope.PERSONA} if self.isolation is Isolation.FULL else set[Scope]()
        if not owner.project_key:
            hidden.add(Scope.PROJECT)
        return tuple(spec for spec in specs if spec.key.scope not in hidden)


def rules_for(writer: Writer, rules: MemoryRules) -> MemoryRules:
    """The rules for `writer`: isolation separates the project's agent from the persona, not from the user."""
    if writer.actor is Actor.HUMAN:
        return replace(rules, isolation=Isolation.NONE)
    return rules


class WriteContext(Struct, frozen=True):
    """One batch of writes: who, when, under which call, and what was decided before.

    `is_trial` batches are rolled back, so they go as far as consent would be asked for.
    """

    owner: MemoryScope
    writer: Writer
    rules: MemoryRules
    ids: IdFactory
    peer: int
    at_ms: int
    templates: Templates
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None
    consented: bool = False
    is_trial: bool = False

    @property
    def author(self) -> Authoring:
        """The author in entries of logs."""
        actor = self.writer.actor
        name = self.owner.persona if actor is Actor.PERSONA else actor.value
        return Authoring(self.at_ms // 1000, name, trusted=actor in {Actor.HUMAN, Actor.SYSTEM})
