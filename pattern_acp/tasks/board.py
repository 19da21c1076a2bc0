"""The board: who is active, on which task and files, what each session does and waits for, and what it may still spend.

Owns: what the board reads of a session. Must not know: claims of one session, or who looks at it. All of it is read
from the database, so every process sees the same.
"""

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.usage import Allowance, amount_text, parse_allowance
from pattern_acp.journal.leases import is_running
from pattern_acp.tasks.claims import Claim, IsAlive, is_lease_alive, read_claims

_QUERIES = load_queries("pattern_acp.tasks")

_ASK_USER = "ask_user"
"""The tool whose call is a question while it runs."""

_ENDS = {
    "end_turn": "answered",
    "cancelled": "was cancelled",
    "refusal": "was refused by the model",
    "max_tokens": "stopped at a limit",
    "max_turn_requests": "stopped at a limit",
}


class BoardRow(Struct, frozen=True):
    """A session that is open. `alive` is False for a dead process."""

    session_id: str
    title: str
    cwd: str
    editor: str
    """The name of the client that has it open, as it gave it; empty for none."""
    persona: str
    model: str
    pid: int
    alive: bool
    task: str
    """Number and title of its task; empty without one."""
    step: str
    """The last thing that it did, or what it does, in words."""
    step_ms: int
    waits_for: tuple[str, ...]
    """Questions that wait for its user."""
    used_tokens: int
    used_micro_units: int
    """Millionths of a US dollar, as far as prices were known."""
    budget: str
    """The session's budget in the form of the settings; empty without one."""
    claims: tuple[Claim, ...]

    @property
    def budget_text(self) -> str:
        """The use so far, and what is left of the budget."""
        used = f"{self.used_tokens:,} tokens" + (
            f", {amount_text(self.used_micro_units)}" * (self.used_micro_units > 0)
        )
        limit = parse_allowance(self.budget) or Allowance()
        left: list[str] = []
        if limit.micro_units is not None:
            left.append(amount_text(max(0, limit.micro_units - self.used_micro_units)))
        if limit.tokens is not None:
            left.append(f"{max(0, limit.tokens - self.used_tokens):,} tokens")
        return f"{used} used" + (f", {' and '.join(left)} left" if left else "")


class _Steps:
    """The newest steps of one session, as they are read."""

    def __init__(self) -> None:
        self.at_ms = 0
        self._said = ""
        self._titles: dict[str, str] = {}
        self._running: dict[str, str] = {}
        self._asked: dict[str, str] = {}

    def note(self, row: Row) -> None:
        """Take in the next one."""
        self.at_ms, item, kind = integer(row[1]), text(row[2]), text(row[3])
        title = _words(row[5])
        match kind:
            case "turn_started" | "turn_ended":
                self._running.clear()
                self._asked.clear()
                said = _words(row[7])
                if kind == "turn_started":
                    self._said = f"runs /{said}" if said else "reads its prompt"
                else:
                    self._said = _ENDS.get(said, "ended its turn")
            case "tool_call_started":
                self._titles[item] = title
                self._running[item] = title
                if row[4] == _ASK_USER:
                    self._asked[item] = title.removeprefix("Ask: ")
            case "tool_call_finished":
                self._running.pop(item, None)
                self._asked.pop(item, None)
                self._said = self._titles.get(item, "") or self._said
            case "permission_asked":
                self._asked[item] = self._titles.get(item, "") or _words(row[6])
            case _:
                self._asked.pop(item, None)

    @property
    def words(self) -> str:
        """The last of them."""
        return next(reversed(self._running.values()), "") or self._said

    @property
    def questions(self) -> tuple[str, ...]:
        """Those that nobody has answered."""
        return tuple(self._asked.values())


def read_board(
    tx: Transaction, *, now_ms: int, budget: str = "", is_alive: IsAlive = is_running
) -> tuple[BoardRow, ...]:
    """The sessions that are open, the busiest last one first, in three statements.

    `budget` is that of a session in the settings, which counts where none was set in the session.
    """
    claims: dict[str, list[Claim]] = {}
    for claim in read_claims(tx, now_ms=now_ms, is_alive=is_alive):
        claims.setdefault(claim.session_id, []).append(claim)
    steps: dict[str, _Steps] = {}
    for row in tx.all(_QUERIES["last_steps"]):
        steps.setdefault(text(row[0]), _Steps()).note(row)
    rows: list[BoardRow] = []
    for row in tx.all(_QUERIES["read_board"]):
        session = text(row[0])
        done, alive = steps.get(session, _Steps()), is_lease_alive(row[6], row[7], row[8], row[9], now_ms, is_alive)
        rows.append(
            BoardRow(
                session_id=session,
                title=text(row[1]),
                cwd=text(row[2]),
                editor=text(row[10]),
                persona=text(row[3]),
                model=text(row[4]),
                pid=integer(row[6]),
                alive=alive,
                task=text(row[14]),
                step=done.words,
                step_ms=max(integer(row[5]), done.at_ms),
                # A question of a dead process is nobody's to answer.
                waits_for=done.questions if alive else (),
                used_tokens=integer(row[12]),
                used_micro_units=integer(row[13]),
                budget=budget if row[11] is None else text(row[11]),
                claims=tuple(claims.get(session, ())),
            )
        )
    return tuple(rows)


def _words(value: object) -> str:
    # What is in a blob, or was taken out, has no words here.
    return value if isinstance(value, str) else ""
