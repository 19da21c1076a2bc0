"""The `Approver` port: ask the user."""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pattern_acp.domain.tool_calls import ToolCallView


class PermissionAnswer(StrEnum):
    """The four answers of an ACP permission request, and a value for no answer. Values equal ACP's option kinds.

    Option ids equal their kinds: avante takes any other id for a refusal (reference: interop rule 1).
    """

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"
    CANCELLED = "cancelled"
    """The client withdrew the question. A turn that was not cancelled treats this as a refusal."""

    @property
    def allows(self) -> bool:
        """Return whether the call may run."""
        return self in {PermissionAnswer.ALLOW_ONCE, PermissionAnswer.ALLOW_ALWAYS}


class ApprovalOption(Struct, frozen=True):
    """One button: an answer and its label, which says how far an "always" reaches."""

    answer: PermissionAnswer
    name: str


class ApprovalRequest(Struct, frozen=True):
    """One question: the call as shown, the reason why it is asked, and the buttons."""

    call: ToolCallView
    reason: str
    options: tuple[ApprovalOption, ...]


class Approver(Protocol):
    """Asks the user."""

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """Return the user's answer. An error or an unknown option of the client is `REJECT_ONCE`."""
        ...
