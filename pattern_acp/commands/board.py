"""Result of `pattern-acp board`.

Owns: its table. Must not know: how the board is read, or when it is shown again.
"""

from collections.abc import Sequence

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, columns
from pattern_acp.domain.text_limits import one_line
from pattern_acp.tasks.board import BoardRow, claim_text, place_text, step_text

_COLUMNS = columns(
    Column("Session", "cyan"),
    "Where",
    "Agent",
    Column("Last step", limit=200),
    Column("Waits for its user", "yellow"),
    "Task",
    "Claims",
    "Used",
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
            f"{place_text(row)}, {row.cwd}",
            f"{row.persona}, {row.model}",
            step_text(row, self.now_ms),
            "; ".join(one_line(question, 120) for question in row.waits_for),
            row.task,
            "; ".join(claim_text(claim, self.now_ms) for claim in row.claims),
            row.budget_text,
        )
