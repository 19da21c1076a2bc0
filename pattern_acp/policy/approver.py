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
    CANCELLED = "cancelled"
    """The client withdrew the question. A turn that was not cancelled treats this as a refusal."""

    @property
    def allows(self) -> bool:
        """Return whether the call may run."""
        return self.value.startswith("allow")

    @property
    def kind(self) -> "PermissionAnswer":
        """Return the answer that ACP names this kind after."""
        return PermissionAnswer.ALLOW_ALWAYS if self.value.startswith("allow_always") else self


class ApprovalOption(Struct, frozen=True):
    """One button: an answer and its label, which says how far an "always" reaches."""

    answer: PermissionAnswer
    name: str


class ApprovalRequest(Struct, frozen=True):
    """One question: the call as shown, the reason why it is asked, and the buttons."""

    call: ToolCallView
    reason: str
    options: tuple[ApprovalOption, ...]
    hear: Callable[[str], None] = lambda _: None
    """Takes what the user wrote beside their answer, before `Approver.ask` returns it."""

    @property
    def first_of_each_kind(self) -> tuple[ApprovalOption, ...]:
        """The options for a client that shows, or understands, only one of a kind."""
        return tuple(option for option in self.options if option.answer is option.answer.kind)


class UserQuestion(Struct, frozen=True):
    """A question of the model: the call as shown, the words, and the answers to choose from, maybe none."""

    call: ToolCallView
    text: str
    options: tuple[str, ...]


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
