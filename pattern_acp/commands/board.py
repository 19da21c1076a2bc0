"""The list of open sessions, for `pattern-acp board` and /board.

Owns: its form. Must not know: how the board is read (`tasks.claims`).
"""

from collections.abc import Sequence

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table
from pattern_acp.domain.text_limits import one_line
from pattern_acp.tasks.claims import TTL_MS, BoardRow, Claim

SHOWN_TEXT = 200
"""Characters of a cell that Markdown shows."""

_COLUMNS = tuple(
    Column(title, style, limit=SHOWN_TEXT)
    for title, style in {
        "Session": "cyan",
        "Where": "",
        "Agent": "",
        "Last step": "",
        "Waits for its user": "yellow",
        "Task": "",
        "Claims": "",
        "Used": "",
    }.items()
)


class Board(Result, frozen=True):
    """The open sessions."""

    rows: tuple[BoardRow, ...] = ()
    now_ms: int = 0

    @property
    def document(self) -> Sequence[Part]:
        """A table, a row a session, without columns that nobody has anything in."""
        if not self.rows:
            return (Paragraph("No session is open."),)
        rows = [self._cells(row) for row in self.rows]
        wanted = [at for at in range(len(_COLUMNS)) if any(row[at] for row in rows)]
        shown = tuple(tuple(row[at] for at in wanted) for row in rows)
        return (Table(tuple(_COLUMNS[at] for at in wanted), shown),)

    @property
    def value(self) -> object:
        """The sessions."""
        return self.rows

    def _cells(self, row: BoardRow) -> tuple[str, ...]:
        return (
            one_line(row.title, 60) or "Untitled",
            f"{_place(row)}, {row.cwd}",
            f"{row.persona}, {row.model}",
            _step(row, self.now_ms),
            "; ".join(one_line(question, 120) for question in row.waits_for),
            row.task,
            "; ".join(_claim(claim, self.now_ms) for claim in row.claims),
            row.budget_text,
        )


def _place(row: BoardRow) -> str:
    dead = "" if row.alive else " (its process is gone)"
    return f"{one_line(row.editor, 60)}, process {row.pid}{dead}" if row.editor else f"process {row.pid}{dead}"


def _step(row: BoardRow, now_ms: int) -> str:
    ago = _ago(now_ms - row.step_ms)
    return f"{ago}: {one_line(row.step, 100)}" if row.step else ago


def _claim(claim: Claim, now_ms: int) -> str:
    left = f"{max(0, claim.renewed_ms + TTL_MS - now_ms) // 60_000} min left"
    notes = [left if claim.state == "active" else claim.state]
    notes += [f"subagent {one_line(claim.agent, 80)}"] if claim.agent else []
    notes += [f"“{one_line(claim.wanted, 80)}” asks for it"] if claim.wanted else []
    return f"{claim.target.shown} ({', '.join(notes)})"


def _ago(milliseconds: int) -> str:
    minutes = milliseconds // 60_000
    if minutes < 1:
        return "just now"
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
