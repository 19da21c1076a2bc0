"""The `Approver` port: ask the user."""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pattern_acp.domain.tool_calls import ToolCallView


class PermissionAnswer(StrEnum):
    """The answers of an ACP permission request, and a value for no answer. Values are option ids.

    The id of the first option of each kind equals the kind: avante takes any other id for a refusal (reference: interop
    rule 1). Further answers of the kind `allow_always` reach otherwise; only clients that show several get them.
    """

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"
    ALLOW_PROJECT = "allow_always_project"
    ALLOW_PERSONA = "allow_always_persona"
    ALLOW_EXACT = "allow_always_exact"
    ALLOW_TURN = "allow_always_turn"
    ALLOW_EDITED = "allow_once_edited"
    """Allowed with the user's wording of the text; only clients with forms get it."""
    REJECT_WITH_REASON = "reject_once_with_reason"
    """Refused with a sentence of the user; only clients with forms get it."""
    CANCELLED = "cancelled"
    """The client withdrew the question. A turn that was not cancelled treats this as a refusal."""

    @property
    def allows(self) -> bool:
        """Return whether the call may run."""
        return self.value.startswith("allow")

    @property
    def kind(self) -> "PermissionAnswer":
        """Return the answer that ACP names this kind after."""
        kinds = PermissionAnswer.ALLOW_ALWAYS, PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE
        return next((kind for kind in kinds if self.value.startswith(kind.value)), self)

    @property
    def takes_text(self) -> bool:
        """Return whether the user writes something with it."""
        return self in {PermissionAnswer.ALLOW_EDITED, PermissionAnswer.REJECT_WITH_REASON}


class ApprovalOption(Struct, frozen=True):
    """One button: an answer and its label, which says how far an "always" reaches."""

    answer: PermissionAnswer
    name: str


class Wording(Struct):
    """The text of a call that the user may change before they allow it."""

    text: str
    changed: str = ""
    """The user's wording; empty while the text is as the model wrote it."""


class ApprovalRequest(Struct, frozen=True):
    """One question: the call as shown, the reason why it is asked, and the buttons."""

    call: ToolCallView
    reason: str
    options: tuple[ApprovalOption, ...]
    hear: Callable[[str], None] = lambda _: None
    """Takes what the user wrote beside their answer, before `Approver.ask` returns it."""
    text: str = ""
    """The text that `PermissionAnswer.ALLOW_EDITED` lets the user change."""

    @property
    def first_of_each_kind(self) -> tuple[ApprovalOption, ...]:
        """The options for a client that shows, or understands, only one of a kind."""
        return tuple(option for option in self.options if option.answer is option.answer.kind)


class UserQuestion(Struct, frozen=True):
    """A question to the user: the call as shown, the words, and the answers to choose from, maybe none."""

    call: ToolCallView
    text: str
    options: tuple[str, ...]
    is_closed: bool = False
    """True where the last answer refuses, so that buttons need none for an answer in the user's own words."""


class Approver(Protocol):
    """Asks the user about calls."""

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """Return the user's answer. An error or an unknown option of the client is `REJECT_ONCE`."""
        ...


class UserContact(Approver, Protocol):
    """Asks the user about calls, and what a model wants to know."""

    async def put(self, question: UserQuestion) -> str | None:
        """Return the user's answer; empty if they gave none, None if it cannot be shown or wants a free answer."""
        ...
