"""Errors of blocks. Every one means that nothing was changed; the sentence is for the model."""

from pattern_acp.domain.errors import BlockError


class BlockMissingError(BlockError):
    """No block has this label."""

    failure_code = "memory.block-missing"

    def __init__(self, label: str, known: tuple[str, ...] = ()) -> None:
        """Name the label that was asked for and, where they are known, the labels that exist."""
        hint = f" The blocks are: {', '.join(known)}." if known else ""
        super().__init__(f"There is no memory block named {label!r}.{hint}")
        self.label = label


class LimitExceededError(BlockError):
    """The edit would make the block longer than its limit; nothing is ever cut."""

    failure_code = "memory.block-full"

    def __init__(self, label: str, *, current: int, limit: int, wanted: int, oldest: tuple[str, ...] = ()) -> None:
        """Say the counts, in characters: now, the limit, what the edit would lead to; and the passages to give up."""
        self.label = label
        self.current = current
        self.limit = limit
        self.over = wanted - limit
        super().__init__(
            f"The block {label!r} has {current} of at most {limit} characters, and this edit would make it {wanted}, "
            f"which is {self.over} too many; shorten the text, or replace or remove older lines first."
            + (f" The oldest and least recalled are: {'; '.join(oldest)}." if oldest else "")
        )


class PassageError(BlockError):
    """The passage to replace is not in the block exactly once."""

    failure_code = "memory.passage-not-unique"

    def __init__(self, label: str, *, count: int) -> None:
        """Say how often it was found."""
        self.label = label
        self.count = count
        if count == 0:
            remedy = "is not in it; read the block and copy the passage exactly, with its white space and line ends."
        else:
            remedy = f"is in it {count} times; give a longer passage that is there only once."
        super().__init__(f"Nothing in the block {label!r} was replaced: the passage to replace {remedy}")


class UnusableEditError(BlockError):
    """The edit says nothing, changes nothing, or holds characters that cannot be stored."""

    failure_code = "memory.edit-unusable"

    def __init__(self, label: str, problem: str) -> None:
        """Name the block; `problem` is the rest of the sentence, with what to do."""
        super().__init__(f"The block {label!r} was not changed: {problem}")
        self.label = label


class StaleProposalError(BlockError):
    """Another write came between proposing a change and storing it."""

    failure_code = "memory.proposal-stale"

    def __init__(self, label: str) -> None:
        """Name the block."""
        super().__init__(f"The block {label!r} was changed by someone else meanwhile; read it and try the edit again.")
        self.label = label


class NothingDeletedError(BlockMissingError):
    """No block of this label was deleted, or what was has been forgotten."""

    failure_code = "memory.nothing-deleted"

    def __init__(self, label: str) -> None:
        """Name the label."""
        BlockError.__init__(
            self,
            f"No memory block {label!r} was deleted that could be restored; the list of blocks names those that can.",
        )
        self.label = label


class LabelTakenError(BlockError):
    """A block cannot be restored, since another one has its label now."""

    failure_code = "memory.label-taken"

    def __init__(self, label: str) -> None:
        """Name the label."""
        super().__init__(
            f"There is a memory block {label!r} already; delete that one, then restore the older one by its number in "
            f"the list of blocks."
        )
        self.label = label


class VersionError(BlockError):
    """A block has no such version, or that version's words were forgotten."""

    failure_code = "memory.version-missing"

    def __init__(self, label: str, problem: str) -> None:
        """Name the block; `problem` is the rest of the sentence, with what to do."""
        super().__init__(f"That version of the block {label!r} is not available: {problem}")
        self.label = label


class UndoConflictError(BlockError):
    """A write cannot be taken back, since later ones changed the same text."""

    failure_code = "memory.undo-conflict"

    def __init__(self, label: str, number: int, problem: str) -> None:
        """Name the block and the write; `problem` is the rest of the sentence, with what to do."""
        super().__init__(f"Write {number} of the block {label!r} cannot be taken back: {problem}")
        self.label = label
        self.number = number


class BlockCorruptError(BlockError):
    """The stored block is unreadable and could not be rebuilt; it is never taken for an empty block."""

    failure_code = "memory.block-corrupt"

    def __init__(self, name: str, problem: str) -> None:
        """Name the block and the problem."""
        super().__init__(
            f"What is stored of the memory block {name!r} is damaged ({problem}); restore the constellation from a "
            f"backup, or delete this block."
        )
        self.name = name
        self.problem = problem


class HistoryCorruptError(BlockCorruptError):
    """The stored history of a block is unreadable, while its text is sound."""

    failure_code = "memory.block-corrupt"

    def __init__(self, name: str, problem: str, *, only_text: bool = False) -> None:
        """Name the block and the problem. With `only_text`, no document is left that an edit could change."""
        editing = ", but cannot be edited until" if only_text else "."
        BlockError.__init__(
            self,
            f"The history of the memory block {name!r} is damaged ({problem}), so older versions and undo are not "
            f"available; its text is sound{editing} `pattern-acp doctor --verify --repair` begins its history again "
            "with this text.",
        )
        self.name = name
        self.problem = problem


class DocumentError(BlockError):
    """The document library refused a call where no stored bytes are at fault."""

    failure_code = "memory.document-unreadable"

    def __init__(self, name: str, problem: str) -> None:
        """Name the block and the problem."""
        super().__init__(f"The document of the memory block {name!r} refused an operation ({problem}); try it again.")
        self.name = name
        self.problem = problem


class ContentRefusedError(UnusableEditError):
    """The content does not fit the block's schema."""

    failure_code = "memory.content-refused"

    def __init__(self, label: str, problem: str, field: str = "") -> None:
        """`problem` is a clause that names the field, where one is at fault, and says why."""
        super().__init__(label, problem if problem.endswith(".") else problem + ".")
        self.field = field


class PermissionDeniedError(BlockError):
    """The block's permission does not let this writer do this."""

    failure_code = "memory.permission-denied"

    def __init__(self, label: str, problem: str) -> None:
        """`problem` says which permission it has and what that allows."""
        super().__init__(f"The block {label!r} was not changed: {problem}")
        self.label = label


class IsolationDeniedError(BlockError):
    """The project is separated from the persona's memory."""

    failure_code = "memory.isolated"

    def __init__(self, label: str, isolation: str) -> None:
        """Say which setting denies it and what would allow it."""
        super().__init__(
            f"IsolationDenied: `{label}` is memory of the persona, which this project does not write "
            f"(memory.isolation is {isolation}). Write into memory of the project instead; the user can allow it "
            f'with `isolation = "none"` under `[memory]` in their configuration and the project\'s.'
        )
        self.label = label


class SecretFoundError(BlockError):
    """The text seems to hold a secret, and secrets are never stored."""

    failure_code = "memory.secret-found"

    def __init__(self, label: str, what: str, excerpt: str) -> None:
        """`what` names the kind of secret, `excerpt` shows it masked."""
        super().__init__(
            f"The block {label!r} was not changed: the text seems to hold {what} ({excerpt}). Leave the secret out and "
            f"note where it is stored instead."
        )
        self.label = label


class DuplicateFoundError(BlockError):
    """Memory says the same already."""

    failure_code = "memory.duplicate"

    def __init__(self, label: str, where: str, existing: str) -> None:
        """`where` is the block or entry that has it, `existing` what it says."""
        super().__init__(
            f"The block {label!r} was not changed: {where} says nearly the same already: “{existing}”. Replace that "
            f"passage if the new one is better, or drop the new one."
        )
        self.label = label
        self.existing = existing


class SystemTextError(BlockError):
    """The text is the program's own, such as a reminder, and nobody's words to remember."""

    failure_code = "memory.system-text"

    def __init__(self, label: str, excerpt: str) -> None:
        """`excerpt` shows what was recognised."""
        super().__init__(
            f"The block {label!r} was not changed: the text holds a part of the program's own messages ({excerpt}), "
            f"which is not something that anyone said; remember the fact itself in your own words."
        )
        self.label = label
