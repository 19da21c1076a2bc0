"""Claims, the files that sessions are about to change; and the board of open sessions, which shows them.

Owns: the table `claims`, and what the board reads of a session: its task and files, what it does and waits for, and
what it may still spend. Must not know: who learns of a claim, what becomes of an edit, or who looks at the board. Like
leases, claims are not journaled: they say who works now. A claim is in force while its session's lease is, and for
`TTL_MS` behind its last renewal; it never stops or changes anything on its own. The board is read from the database, so
every process sees the same.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import Advised
from pattern_acp.domain.usage import Allowance, amount_text, parse_allowance
from pattern_acp.journal.leases import STALE_MS, host_name, is_running

_QUERIES = load_queries("pattern_acp.tasks")

TTL_MS = 15 * 60_000
"""Life of a claim behind its last renewal."""

ClaimState: TypeAlias = Literal["active", "expired", "stale"]


class ClaimKind(StrEnum):
    """The form of a claim: one file, a folder with all below it, or the files that a pattern means."""

    FILE = "file"
    FOLDER = "folder"
    GLOB = "glob"


class ClaimTarget(Struct, frozen=True):
    """A file, folder or pattern to claim. `path` is absolute, without a slash at its end."""

    path: str
    kind: ClaimKind = ClaimKind.FILE

    @property
    def shown(self) -> str:
        """The path, with a slash behind a folder."""
        return f"{self.path}/" if self.kind is ClaimKind.FOLDER else self.path

    def meets(self, other: "ClaimTarget") -> bool:
        """True if both may mean one file."""
        if self.path == other.path:
            return True
        mine, theirs = self.kind, other.kind
        if mine is ClaimKind.FILE:
            return theirs is not ClaimKind.FILE and other.meets(self)
        if theirs is ClaimKind.FILE:
            return _is_in(other.path, self.path) if mine is ClaimKind.FOLDER else _matches(self.path, other.path)
        # Two of which each means many: one lies in the other, and no two patterns of other endings.
        roots = _root_of(self), _root_of(other)
        nested = roots[0] == roots[1] or _is_in(roots[0], roots[1]) or _is_in(roots[1], roots[0])
        return nested and not (mine is theirs is ClaimKind.GLOB and _endings_differ(self.path, other.path))


class Claim(Struct, frozen=True):
    """One claim, with its session."""

    session_id: str
    target: ClaimTarget
    agent: str
    """The subagent that made it last; empty for the session itself."""
    made_ms: int
    renewed_ms: int
    title: str
    persona: str
    task: str
    """Number and title of the task that the session works on; empty without one."""
    state: ClaimState
    """`stale` when the process of its session died without closing it."""
    wanted: str = ""
    """The title of the session that asks for it; empty where none does."""

    @property
    def who(self) -> str:
        """The session in words."""
        by = f", its subagent {one_line(self.agent, 80)}" if self.agent else ""
        return f"“{one_line(self.title, 80) or 'an untitled session'}” ({self.persona}){by}"

    @property
    def line(self) -> str:
        """Who works where, since when, and on which task."""
        task = f", on the task {self.task}" if self.task else ""
        return f"- {self.target.shown}: {self.who}, since {local_minute(self.made_ms)}{task}"


IsAlive: TypeAlias = Callable[[int, str], bool]


def target_of(words: str, cwd: str) -> ClaimTarget:
    """The target that the user names: a pattern, a folder (by a slash, or because it is one), else a file. Blocks."""
    path = os.path.abspath(os.path.join(cwd, words))  # noqa: PTH100, PTH118  # a Path would drop the slash at the end
    if os.path.isdir(path) or words.endswith(("/", os.sep)):  # noqa: PTH112
        return ClaimTarget(path, ClaimKind.FOLDER)
    is_pattern = any(mark in path for mark in "*?[") and not os.path.lexists(path)
    return ClaimTarget(path, ClaimKind.GLOB if is_pattern else ClaimKind.FILE)


def take_claims(
    tx: Transaction,
    session_id: str,
    targets: Sequence[ClaimTarget],
    *,
    now_ms: int,
    agent: str = "",
    renews: bool = True,
) -> None:
    """Claim targets for a session, those that another one has among them.

    With `renews`, its other claims are renewed, and those of whomever that ended are dropped.
    """
    if renews:
        tx.execute(_QUERIES["drop_ended_claims"], {"before": now_ms - 24 * 60 * 60_000})
        tx.execute(_QUERIES["renew_claims"], {"session": session_id, "now_ms": now_ms})
    for target in targets:
        named: dict[str, SqlValue] = {"session": session_id, "path": storable(target.path), "kind": target.kind.value}
        tx.execute(_QUERIES["put_claim"], {**named, "agent": storable(agent), "now_ms": now_ms})


def release_claims(tx: Transaction, session_id: str, path: str = "", *, now_ms: int) -> int:
    """Give back the claims of a session, or one of them, to those that ask for them; how many there were."""
    named: dict[str, SqlValue] = {"session": session_id, "path": storable(path)}
    tx.execute(_QUERIES["hand_over_claims"], {**named, "now_ms": now_ms})
    return tx.execute(_QUERIES["release_claims"], named)


def take_over(
    tx: Transaction, session_id: str, target: ClaimTarget, *, now_ms: int, is_alive: IsAlive = is_running
) -> tuple[tuple[Claim, ...], tuple[Claim, ...]]:
    """Take claims of others over that meet a target: those that ended at once, those of living sessions by asking.

    Returns both. The target is this session's once nothing is in force there; who is asked has the last word.
    """
    met = [
        one
        for one in read_claims(tx, now_ms=now_ms, is_alive=is_alive)
        if one.session_id != session_id and one.target.meets(target)
    ]
    ended = tuple(one for one in met if one.state != "active")
    asked = tuple(one for one in met if one.state == "active")
    for one in ended:
        tx.execute(_QUERIES["release_claims"], {"session": one.session_id, "path": one.target.path})
    for one in asked:
        named = {"session": one.session_id, "path": one.target.path}
        tx.execute(_QUERIES["want_claim"], {**named, "wanted_by": session_id})
    if not asked:
        take_claims(tx, session_id, [target], now_ms=now_ms)
    return ended, asked


class WantedClaim(Struct, frozen=True):
    """A claim that another open session asks for."""

    path: str
    session_id: str
    who: str


def wanted_claims(tx: Transaction, session_id: str) -> tuple[WantedClaim, ...]:
    """The claims of a session that other open sessions ask for."""
    return tuple(
        WantedClaim(text(row[0]), text(row[1]), f"“{one_line(text(row[2]), 80) or 'untitled'}” ({text(row[3])})")
        for row in tx.all(_QUERIES["wanted_claims"], {"session": session_id})
    )


def drop_claims(tx: Transaction, session_id: str, mask: Callable[[str], str]) -> int:
    """Give back the claims of a session on paths that hold words which `mask` takes out; how many those were."""
    paths = [text(row[0]) for row in tx.all(_QUERIES["claimed_paths"], {"session": session_id})]
    return sum(
        tx.execute(_QUERIES["release_claims"], {"session": session_id, "path": path})
        for path in paths
        if mask(path) != path
    )


def overlapping(
    tx: Transaction, session_id: str, targets: Sequence[ClaimTarget], *, now_ms: int, is_alive: IsAlive = is_running
) -> tuple[Claim, ...]:
    """The claims in force of other sessions that meet one of these targets.

    What the parent of a fork did before it was forked is the fork's own work too, and no reason to wait.
    """
    # Here and not in a loop over all claims: every first edit of a file asks this.
    asked: dict[str, SqlValue] = {
        "session": session_id,
        "after": now_ms - TTL_MS,
        "paths": json.dumps([path for target in targets for path in _with_folders(target.path)]),
        "below": json.dumps([f"{_root_of(one)}/" for one in targets if one.kind is not ClaimKind.FILE]),
    }
    rows = tx.all(_QUERIES["claims_near"], asked)
    if not rows:
        return ()
    row = tx.one(_QUERIES["origin_of_fork"], {"session": session_id})
    parent, forked_ms = (text(row[0]), integer(row[1])) if row is not None else ("", 0)
    met = [one for one in _claims(rows, now_ms, is_alive) if any(map(one.target.meets, targets))]
    return tuple(
        one for one in met if one.state == "active" and not (one.session_id == parent and one.renewed_ms <= forked_ms)
    )


def read_claims(tx: Transaction, *, now_ms: int, is_alive: IsAlive = is_running) -> tuple[Claim, ...]:
    """Every claim of an open session, oldest first; also those that expired or whose process died."""
    return _claims(tx.all(_QUERIES["read_claims"]), now_ms, is_alive)


def beside_text(files: Mapping[str, str]) -> Advised:
    """Text for a subagent instead of the effect: which other one that runs beside it edits the same file."""
    lines = [
        "Not done yet, nothing was changed. Another subagent of the same session edits what this call would change:"
    ]
    lines += [f"- {path}: {one_line(name, 80)}" for path, name in files.items()]
    advice = "Its work must survive: read the file again, change your part only; the same call once more is done."
    return Advised("\n".join(lines), advice)


def _claims(rows: Sequence[Row], now_ms: int, is_alive: IsAlive) -> tuple[Claim, ...]:
    # A process has many claims, and asking for one costs as much as reading a file.
    alive = lru_cache(maxsize=None)(is_alive)
    return tuple(_claim(row, now_ms, alive) for row in rows)


def _with_folders(path: str) -> list[str]:
    """The path and the folders that it lies in."""
    plain = path.replace("\\", "/")
    return [path, *(path[:at] for at, mark in enumerate(plain) if mark == "/" and at)]


def _claim(row: Row, now_ms: int, is_alive: IsAlive) -> Claim:
    renewed = integer(row[5])
    alive = is_lease_alive(row[8], row[9], row[10], row[11], now_ms, is_alive)
    return Claim(
        session_id=text(row[0]),
        target=ClaimTarget(text(row[1]), ClaimKind(text(row[2]))),
        agent=text(row[3]),
        made_ms=integer(row[4]),
        renewed_ms=renewed,
        title=text(row[6]),
        persona=text(row[7]),
        task=text(row[13]),
        state="stale" if not alive else "expired" if renewed + TTL_MS <= now_ms else "active",
        wanted=text(row[12]),
    )


def is_lease_alive(
    pid: SqlValue, mark: SqlValue, host: SqlValue, renewed: SqlValue, now_ms: int, is_alive: IsAlive = is_running
) -> bool:
    """Return whether the process of a lease runs; one of another machine counts by the lease's last renewal."""
    if host != host_name():
        return isinstance(renewed, int) and now_ms - renewed <= STALE_MS
    return isinstance(pid, int) and isinstance(mark, str) and is_alive(pid, mark)


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in {"/", "\\"}


def _root_of(target: ClaimTarget) -> str:
    """The folder, or the one that a pattern's files lie in or below."""
    if target.kind is ClaimKind.FOLDER:
        return target.path
    marks = [at for mark in "*?[" if (at := target.path.find(mark)) >= 0]
    return target.path[: min(marks)].rpartition("/")[0] if marks else target.path


def _endings_differ(one: str, other: str) -> bool:
    """True if both patterns end with other extensions, such as `*.py` and `*.md`."""
    mine, theirs = (path.rpartition("/")[2].rpartition("*.")[2] for path in (one, other))
    return mine != theirs and mine.isalnum() and theirs.isalnum()


def _matches(pattern: str, path: str) -> bool:
    root = _root_of(ClaimTarget(pattern, ClaimKind.GLOB))
    try:
        glob = compile_glob(pattern[len(root) :], root)
    except WorkspaceError:
        return False
    return _is_in(path, root) and glob.regex.fullmatch(path[len(root) + 1 :]) is not None


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
