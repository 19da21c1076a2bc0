"""Settings and shares of blocks, as the user changes them.

Owns: composing each with its event in one transaction (rules R1 and R2). Must not know: how anything is shown. Only the
owner of a block sets it up: one that is attached is its owner's to configure. A block of the scope `shared` belongs to
the user, who sets it up from anywhere.
"""

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock, TurnId
from pattern_acp.journal.events import BlockConfigured, BlockShared
from pattern_acp.journal.writer import append
from pattern_acp.memory.archive import PathNote, bound_entries
from pattern_acp.memory.blocks import Block, Permission, Scope
from pattern_acp.memory.configuring import configured, setting_of, store_settings
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.service.history import find_key
from pattern_acp.memory.service.scope import PERSON, MemoryScope, WriteContext, Writer
from pattern_acp.memory.sharing import Attachment, attach, attachments, detach
from pattern_acp.memory.store import load_block


class MemorySetup:
    """Settings and shares of the blocks of a session's persona and project."""

    def __init__(self, database: Database, owner: MemoryScope, *, clock: Clock, writer: Writer = PERSON) -> None:
        self.turn_id: TurnId | None = None
        self._database = database
        self._owner = owner
        self._clock = clock
        self._writer = writer

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms()

    async def bound(self) -> tuple[PathNote, ...]:
        """Traps, constraints and decisions of the persona and the project, also those that hold no longer."""
        return await self._database.read(lambda tx: bound_entries(tx, self._owner.sources))

    async def configure(self, label: str, setting: str, value: str) -> Block:
        """Change a setting of a block; the block afterwards.

        Raises:
            BlockError: there is no such block, setting or value.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """
        turn_id = self.turn_id

        def change(tx: Transaction) -> Block:
            block = self._own(tx, label)
            if setting == "permission" and block.key.scope is Scope.SHARED:
                problem = "it is shared, and each attachment has a permission of its own; share it with that one."
                raise UnusableEditError(label, problem)
            changed = configured(block, setting, value)
            if changed == block:
                raise UnusableEditError(label, f"its {setting} is {setting_of(block, setting)} already.")
            event = BlockConfigured(
                block.id,
                block.key.scope.value,
                block.key.owner,
                block.key.label,
                setting,
                setting_of(block, setting),
                setting_of(changed, setting),
                turn_id,
            )
            store_settings(tx, changed, seq=self._record(tx, event))
            return changed

        return await self._database.write(change)

    async def share(self, label: str, attachment: Attachment) -> Block:
        """Attach a block to a persona or project, or change what they may do with it.

        Raises:
            BlockError: there is no such block, or it is to be shared with its owner.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """
        turn_id = self.turn_id

        def change(tx: Transaction) -> Block:
            block = self._own(tx, label)
            if (attachment.scope, attachment.owner) == (block.key.scope, block.key.owner):
                raise UnusableEditError(label, "it belongs to them; a block is shared with others.")
            seq = self._record(tx, _shared(block, attachment.scope, attachment.owner, attachment.permission, turn_id))
            attach(tx, block.id, attachment, at_ms=self._clock.now_ms(), seq=seq)
            return block

        return await self._database.write(change)

    async def unshare(self, label: str, scope: Scope, owner: str) -> Block:
        """Attach a block no longer to a persona or project.

        Raises:
            BlockError: there is no such block, or it was not attached to them.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """
        turn_id = self.turn_id

        def change(tx: Transaction) -> Block:
            block = self._own(tx, label)
            if not detach(tx, block.id, scope, owner):
                raise UnusableEditError(label, f"it is not shared with the {scope} {owner!r}.")
            self._record(tx, _shared(block, scope, owner, None, turn_id))
            return block

        return await self._database.write(change)

    async def shares(self, label: str) -> tuple[Attachment, ...]:
        """To whom a block is attached. Raises BlockError where there is no such block."""
        return await self._database.read(lambda tx: attachments(tx, self._own(tx, label).id))

    async def own(self, label: str) -> Block:
        """A block that is set up here, with its settings.

        Raises:
            BlockError: there is no such block, or it is set up elsewhere.
        """
        return await self._database.read(lambda tx: self._own(tx, label))

    def _own(self, tx: Transaction, label: str) -> Block:
        if self._owner.fork is not None:
            problem = "it is forked memory, which is set up as it was; do that after /merge or /discard."
            raise UnusableEditError(label, problem)
        key = find_key(tx, self._owner.owners, label)
        if key.scope is not Scope.SHARED and (key.scope, key.owner) not in self._owner.owners:
            raise UnusableEditError(
                label, f"it is shared by the {key.scope} {key.owner!r}, and only there it is set up."
            )
        return load_block(tx, key)

    def _record(self, tx: Transaction, event: BlockConfigured | BlockShared) -> int:
        at_ms = self._clock.now_ms()
        actor, origin = self._writer.actor, self._writer.origin
        return append(tx, self._owner.session_id, event, actor=actor, origin=origin, at_ms=at_ms).seq


def attach_first(tx: Transaction, block: Block, writing: WriteContext) -> None:
    """Attach a new shared block to the project it was made in, so that the one who made it sees it."""
    project = writing.owner.owner_of(Scope.PROJECT)
    event = _shared(block, Scope.PROJECT, project, block.permission, writing.turn_id)
    writer, stream = writing.writer, writing.owner.session_id
    appended = append(tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms)
    attachment = Attachment(Scope.PROJECT, project, block.permission)
    attach(tx, block.id, attachment, at_ms=writing.at_ms, seq=appended.seq)


def _shared(
    block: Block, scope: Scope, owner: str, permission: Permission | None, turn_id: TurnId | None
) -> BlockShared:
    return BlockShared(
        block_id=block.id,
        scope=block.key.scope.value,
        owner=block.key.owner,
        label=block.key.label,
        with_scope=scope.value,
        with_owner=owner,
        permission="" if permission is None else permission.value,
        turn_id=turn_id,
    )
