"""Values of a decision: modes, verdicts, scopes of an "always" answer, the decision itself; and the port that asks.

Owns: the vocabulary of policy. Must not know: how a decision is reached, or how the user is asked.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from pattern_acp.domain.tool_calls import ToolCallView

NO_NETWORK = "no network"
"""End of the name of a sandbox that cuts the network."""

NO_SANDBOX = "unavailable"
"""Instead of a sandbox's name: the user wants one, and there is none. Commands that would run in it ask."""

SANDBOX_REQUIRED = "required"
"""Instead of a sandbox's name: the user lets no command run without one, and there is none."""


class Mode(StrEnum):
    """Permission modes: how much runs without asking. Ids are stable: people save them in their editor's settings."""

    ASK = "ask"
    EDIT = "edit"
    PLAN = "plan"
    AUTO = "auto"


class Verdict(StrEnum):
    """Outcome for a call: run, ask, or deny."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """Return 0 for allow, 1 for ask, 2 for deny: the largest wins when accesses are combined."""
        return ("allow", "ask", "deny").index(self.value)


class Lifetime(StrEnum):
    """Duration of an answer: this turn, this session, this persona in this project, or this persona everywhere."""

    TURN = "turn"
    SESSION = "session"
    PROJECT = "project"
    PERSONA = "persona"


class GrantScope(Struct, frozen=True):
    """The reach of an "always" answer. `what` says on a button what is allowed, such as "edits in src/".

    `kind` and `pattern` are one of:

    - `command_prefix`: JSON list of the words that a simple command starts with; a first word with a slash is the
      resolved path of the program.
    - `exact_command`: JSON list of the folder and the whole line, since one line means another thing elsewhere.
    - `edit_folder`, `read_folder`: a resolved folder and all below it, or one resolved file.
    - `edits`: empty; every edit inside the session's folders that mode `edit` would not ask about.
    - `memory_block`: JSON list of a block's scope, owner and label.
    - `server_tool`: JSON list of an MCP server, its tool, and the hash of what was agreed to.
    - `fetch_host`: a host of the web, with its port where it is not the usual one.
    """

    kind: str
    pattern: str
    what: str
    lifetimes: tuple[Lifetime, ...] = (Lifetime.SESSION,)
    """Those that are offered: what is protected or destructive is only ever allowed for a session."""

    def label(self, lifetime: Lifetime) -> str:
        """Return the text of an allowing button: one line that says how far it reaches and how long it lasts."""
        if lifetime is Lifetime.TURN:
            return f"Allow {self.what} for the rest of this turn"
        return f"Always allow {self.what} {_DURATIONS[lifetime]}"


_DURATIONS = {
    Lifetime.SESSION: "in this session",
    Lifetime.PROJECT: "in this project",
    Lifetime.PERSONA: "for this persona everywhere",
}


CLAIMED = "claimed"
"""Rule of what other open sessions work on."""


class ClaimElsewhere(Struct, frozen=True):
    """Claim of another open session on what a call would change."""

    path: str
    session: str
    told: bool = False
    """True once the model, or the user, learned of it and continued."""
    line: str = ""
    """The claim in words: who works where, since when, on which task; empty in a record."""


class Circumstances(Struct, frozen=True):
    """State of the session around a decision; empty or None where it is not known."""

    budget: str = ""
    """Requests and time that the turn has left, in words."""
    git: str = ""
    """The branch, or commit, that the session's folder is on."""
    requests: int | None = None
    """Requests that the turn has left."""
    minutes: int | None = None
    """Whole minutes that the turn has left."""
    branch: str | None = None
    """The branch; empty on a commit and outside of repositories."""
    hour: int | None = None
    """The hour of the day where the user is."""
    claims: tuple[ClaimElsewhere, ...] = ()
    """Claims of others on what the call would change."""


class Basis(Struct, frozen=True):
    """All that a decision was made from besides policy and the call itself."""

    circumstances: Circumstances
    paths: tuple[tuple[str, str, str], ...] = ()
    """Paths that led elsewhere than they say: path, folder that it begins at, resolved path."""


class Decision(Struct, frozen=True):
    """A verdict, the rule behind it, and a sentence why.

    `scopes` are those an "always" answer would store, narrowest first; empty when only "once" can be answered.
    """

    verdict: Verdict
    rule: str
    reason: str
    scopes: tuple[GrantScope, ...] = ()
    sandbox: str = ""
    """The sandbox that the call has to run in, in a few words; empty for a call that may run outside."""
    origin: str = ""
    """Origin of the call's arguments in words, as far as it is known; empty for the model's own."""
    layer: str = ""
    """The layer that decided; empty for the one that its rule belongs to (`layers.layer_of`)."""
    source: str = ""
    """The rule of a file, or the grant, by which it was decided."""
    settled_by_trust: bool = False
    """True when it asks only as long as the user does not trust the session's folder."""
    basis: Basis | None = None
    """Its circumstances, where they are known, for the record."""


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
