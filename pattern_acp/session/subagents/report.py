"""What a subagent gives back.

Owns: the result of the call that it ran for. Must not know: how it ran.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.domain.messages import Message
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import DiffContent, Location, TextContent
from pattern_acp.session.changed_files import ChangedFile
from pattern_acp.tools.base import ToolOutcome
from pattern_acp.tools.text_limits import cut_middle, one_line
from pattern_acp.turn.loop import last_answer
from pattern_acp.workspace.paths import display_path

FILES_SHOWN = 50
"""Most changed files whose diffs the call shows; `/diff` shows all."""

FILES_NAMED = 50
"""Most files that commands changed and that are named."""


class Work(Struct, frozen=True):
    """What one changed, by its edits and by its commands. `cwd` is for names."""

    files: tuple[ChangedFile, ...]
    by_commands: tuple[str, ...]
    """Other files that changed while its commands ran, as the session's checkpoints saw it: absolute paths."""
    blocks: tuple[str, ...]
    """Labels of memory blocks."""
    cwd: str
    only_reads: bool

    @property
    def told(self) -> str:
        """The changes in words for the model; empty for one that could make none."""
        names = [display_path(file.path, self.cwd) for file in self.files]
        told = [f"Files changed: {', '.join(names)}."] if names else []
        others = [display_path(path, self.cwd) for path in self.by_commands]
        more = f" and {len(others) - FILES_NAMED} more" if len(others) > FILES_NAMED else ""
        told += [f"Changed by its commands: {', '.join(others[:FILES_NAMED])}{more}."] if others else []
        told += [f"Memory changed: {one_line(', '.join(self.blocks))}."] if self.blocks else []
        return "\n".join(told) or ("" if self.only_reads else "It changed no files and no memory.")


def outcome_of(
    history: Sequence[Message], sentence: str, work: Work, *, failed: bool, limit: int, title: str
) -> ToolOutcome:
    """The result: the last thing said, why it ended if that is not plain, and what it changed.

    Args:
        history: its conversation.
        sentence: why it ended; empty when it gave its report.
        work: what it changed.
        failed: whether it could not go on; without a report it counts as failed anyway.
        limit: characters that the model reads.
        title: the call's title at its end.
    """
    report = last_answer(history)
    said = "\n\n".join(part for part in (report, sentence, work.told) if part)
    cut = cut_middle(said, limit)
    diffs = tuple(
        DiffContent(file.path, passage.before, passage.after)
        for file in work.files[:FILES_SHOWN]
        for passage in file.passages
    )
    return ToolOutcome(
        cut.text,
        is_error=failed or not report,
        content=(TextContent(said), *diffs),
        locations=tuple(Location(path) for path in (*(file.path for file in work.files), *work.by_commands)),
        full_output=said if cut.text != said else "",
        origin=Origin.AGENT,
        title=title,
    )
