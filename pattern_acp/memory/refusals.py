"""Why a write of memory is refused, besides what `memory/errors.py` names. Every one means that nothing was changed."""

from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.errors import UnusableEditError


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
    """The project is kept apart from the persona's memory."""

    failure_code = "memory.isolated"

    def __init__(self, label: str, isolation: str) -> None:
        """Say which setting denies it and what would allow it."""
        super().__init__(
            f"IsolationDenied: `{label}` is memory of the persona, which this project does not write "
            f"(memory.isolation is {isolation}). Write into memory of the project instead; the person can allow it "
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
            f"note where it is kept instead."
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
