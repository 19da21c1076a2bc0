"""Claims: the files that sessions are about to change, and the board of who works where.

Owns: the table `claims`. Must not know: who is told of a claim, or what becomes of an edit. Like leases, claims are not
journaled: they say who works now. A claim is in force while its session's lease is, and for `TTL_MS` behind its last
renewal; it never stops or changes anything by itself.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.config.settings import OverlapSetting
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.leases import STALE_MS
from pattern_acp.journal.processes import host_name, is_running

_QUERIES = load_queries("pattern_acp.tasks")

TTL_MS = 15 * 60_000
"""Life of a claim behind its last renewal."""

HELD = "Not done yet"
"""Beginning of the text that holds a call."""

ClaimState: TypeAlias = Literal["active", "expired", "stale"]


class Claim(Struct, frozen=True):
    """One claim, with its session. `path` is absolute: a file, a folder that ends with a slash, or a glob."""

    session_id: str
    path: str
    made_ms: int
    renewed_ms: int
    title: str
    persona: str
    task: str
    """Number and title of the task that the session works on; empty without one."""
    state: ClaimState
    """`stale` when the process of its session died without closing it."""

    @property
    def who(self) -> str:
        """The session in words."""
        return f"“{one_line(self.title, 80) or 'an untitled session'}” ({self.persona})"


class BoardRow(Struct, frozen=True):
    """A session that is open: who, where, on which task, with which claims. `alive` is False for a dead process."""

    session_id: str
    title: str
    cwd: str
    persona: str
    model: str
    updated_ms: int
    pid: int
    alive: bool
    task: str
    claims: tuple[Claim, ...]


IsAlive: TypeAlias = Callable[[int, str], bool]


def take_claims(
    tx: Transaction, session_id: str, paths: Sequence[str], *, now_ms: int, is_alive: IsAlive = is_running
) -> tuple[Claim, ...]:
    """Claim paths for a session, those that another one has among them, and drop what ended; returns all in force.

    Raises:
        DatabaseError: the constellation cannot be written.
    """
    tx.execute(_QUERIES["drop_ended_claims"], {"before": now_ms - 24 * 60 * 60_000})
    for path in paths:
        tx.execute(_QUERIES["put_claim"], {"session": session_id, "path": storable(path), "now_ms": now_ms})
    tx.execute(_QUERIES["renew_claims"], {"session": session_id, "now_ms": now_ms})
    return read_claims(tx, now_ms=now_ms, is_alive=is_alive)


def release_claims(tx: Transaction, session_id: str, path: str = "") -> int:
    """Give back the claims of a session, or one of them; how many there were."""
    return tx.execute(_QUERIES["release_claims"], {"session": session_id, "path": storable(path)})


def drop_claims(tx: Transaction, session_id: str, mask: Callable[[str], str]) -> int:
    """Give back the claims of a session on paths that hold words which `mask` takes out; how many those were."""
    paths = [text(row[0]) for row in tx.all(_QUERIES["claimed_paths"], {"session": session_id})]
    return sum(release_claims(tx, session_id, path) for path in paths if mask(path) != path)


def overlapping(
    tx: Transaction, session_id: str, paths: Sequence[str], *, now_ms: int, is_alive: IsAlive = is_running
) -> tuple[Claim, ...]:
    """The claims in force of other sessions that mean one of these files or folders.

    What the parent of a fork did before it was forked is the fork's own work too, and no reason to wait.
    """
    row = tx.one(_QUERIES["origin_of_fork"], {"session": session_id})
    parent, forked_ms = (text(row[0]), integer(row[1])) if row is not None else ("", 0)
    others = [
        one
        for one in read_claims(tx, now_ms=now_ms, is_alive=is_alive)
        if one.session_id != session_id and not (one.session_id == parent and one.renewed_ms <= forked_ms)
    ]
    return tuple(one for one in others if one.state == "active" and any(_meets(one.path, path) for path in paths))


def read_claims(tx: Transaction, *, now_ms: int, is_alive: IsAlive = is_running) -> tuple[Claim, ...]:
    """Every claim of an open session, oldest first; also those that expired or whose process died."""
    return tuple(_claim(row, now_ms, is_alive) for row in tx.all(_QUERIES["read_claims"]))


def read_board(tx: Transaction, *, now_ms: int, is_alive: IsAlive = is_running) -> tuple[BoardRow, ...]:
    """The sessions that are open, the busiest last one first, in two statements."""
    claims: dict[str, list[Claim]] = {}
    for claim in read_claims(tx, now_ms=now_ms, is_alive=is_alive):
        claims.setdefault(claim.session_id, []).append(claim)
    return tuple(
        BoardRow(
            session_id=(session := text(row[0])),
            title=text(row[1]),
            cwd=text(row[2]),
            persona=text(row[3]),
            model=text(row[4]),
            updated_ms=integer(row[5]),
            pid=integer(row[6]),
            alive=_lives(row[6], row[7], row[8], row[9], now_ms, is_alive),
            task=text(row[10]),
            claims=tuple(claims.get(session, ())),
        )
        for row in tx.all(_QUERIES["read_board"])
    )


def overlap_text(claims: Sequence[Claim], files: int, overlap: OverlapSetting) -> str:
    """Text for the model instead of the effect: who works there, since when, on what, and the choices."""
    lines = [f"{HELD}, nothing was changed. Another open session works on what this call would change:"]
    for claim in claims:
        about = f", on the task {claim.task}" if claim.task else ""
        lines.append(f"- {claim.path}: {claim.who}, since {local_minute(claim.made_ms)}{about}")
    match overlap:
        case "deny":
            lines.append(
                "The settings deny edits there ([claims] overlap). Work on something else, or wait until that session "
                "is closed or its claim ends, 15 minutes behind its last edit."
            )
        case "ask":
            lines.append(
                "Ask the user: wait, work in a worktree of your own, or go on. Only if they say so, send the same call "
                "once more, which is done then."
            )
        case "tell":
            lines.append(
                f"Its work must survive: read the {'file' if files == 1 else 'files'} again before you edit. Do "
                "something else first, work in a worktree of your own, or go on; the same call once more is done."
            )
    return "\n".join(lines)


def board_text(rows: Sequence[BoardRow], *, now_ms: int) -> str:
    """The board for the user, a paragraph a session."""
    if not rows:
        return "No session is open."
    parts: list[str] = []
    for row in rows:
        dead = "" if row.alive else " (its process is gone)"
        lines = [f"{one_line(row.title, 80) or 'Untitled'}: {row.persona}, {row.model}, process {row.pid}{dead}"]
        lines.append(f"  in {row.cwd}, last step {_ago(now_ms - row.updated_ms)}")
        lines += [f"  task {row.task}"] if row.task else []
        for claim in row.claims:
            left = f"{max(0, claim.renewed_ms + TTL_MS - now_ms) // 60_000} min left"
            lines.append(f"  claims {claim.path} ({left if claim.state == 'active' else claim.state})")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _ago(milliseconds: int) -> str:
    minutes = milliseconds // 60_000
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"


def _claim(row: Row, now_ms: int, is_alive: IsAlive) -> Claim:
    renewed = integer(row[3])
    alive = _lives(row[6], row[7], row[8], row[9], now_ms, is_alive)
    state: ClaimState = "stale" if not alive else "expired" if renewed + TTL_MS <= now_ms else "active"
    return Claim(text(row[0]), text(row[1]), integer(row[2]), renewed, text(row[4]), text(row[5]), text(row[10]), state)


def _lives(pid: object, mark: object, host: object, renewed: object, now_ms: int, is_alive: IsAlive) -> bool:
    """True if the process of a lease runs; one of another machine counts by the lease's last renewal."""
    if host != host_name():
        return isinstance(renewed, int) and now_ms - renewed <= STALE_MS
    return isinstance(pid, int) and isinstance(mark, str) and is_alive(pid, mark)


def _meets(claimed: str, path: str) -> bool:
    """True if a claimed file, folder or glob means the path, or lies in the folder that the path is."""
    if claimed == path or (claimed.endswith("/") and path.startswith(claimed)):
        return True
    if path.endswith("/") and claimed.startswith(path):
        return True
    if not any(mark in claimed for mark in "*?["):
        return False
    root, _, pattern = claimed.rpartition("/**/") if "/**/" in claimed else claimed.rpartition("/")
    try:
        glob = compile_glob(f"**/{pattern}" if "/**/" in claimed else f"/{pattern}", root)
    except WorkspaceError:
        return False
    return path.startswith(f"{root}/") and glob.regex.fullmatch(path.removeprefix(f"{root}/")) is not None
