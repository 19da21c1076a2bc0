"""Texts about checkpoints and rewinds for the user, as Markdown. Pure."""

from collections.abc import Sequence

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.rewind.execution import Rewound
from pattern_acp.rewind.forks import Fork, parts_here
from pattern_acp.rewind.plan import PlannedFile, Point, RewindPlan

MOST_LISTED = 50
"""Most moments, and most files, that are listed; the newest moments."""


POINT_HEADINGS = ("Go to", "Moment", "When", "Files changed from there")
"""Headings of the moments, in a chat and in a terminal."""


def point_cells(key: str, kind: str, text: str, when: str, files: int) -> tuple[str, ...]:
    """One moment under `POINT_HEADINGS`; `key` is what to type, `when` its time in words."""
    what = f"before “{text}”" if kind == "turn" else f"checkpoint: {text}"
    return key, what, when, f"{files or ''}"


def points_table(points: Sequence[Point]) -> str:
    """The moments to which a session can go back, newest last."""
    if not points:
        return (
            "There is nothing to go back to: every prompt becomes a point, and `/checkpoint NAME` makes one. After a "
            "rewind, `/rewind undo` takes it back."
        )
    rows = [f"| {' | '.join(POINT_HEADINGS)} |", "| --- | --- | --- | --- |"]
    for point in points[-MOST_LISTED:]:
        when = local_minute(point.at_ms)
        cells = point_cells(f"`/rewind {point.key}`", point.kind, _cell(point.text), when, point.files)
        rows.append(f"| {' | '.join(cells)} |")
    more = f"\n\n{len(points) - MOST_LISTED} older ones are not shown." if len(points) > MOST_LISTED else ""
    return (
        "\n".join(rows) + f"{more}\n\nAdd `files`, `conversation` or `memory` to go back with only these; "
        "`/rewind undo` takes the last rewind back."
    )


def preview_text(plan: RewindPlan, parts: Sequence[str], cwd: str) -> str:
    """Changes that going back would make, below a title that names the moment."""
    sections: list[str] = []
    behind = plan.target.fork_behind
    if "conversation" in parts and behind:
        sections.append(f"Another session begins behind turn {behind}, which is shared; this one's conversation stays.")
    elif "conversation" in parts:
        sections += _turns("The conversation loses", plan.lost) + _turns("The conversation regains", plan.regained)
    if "files" in parts and plan.files:
        sections.append(
            "\n".join([f"{plural(len(plan.files), 'file')}:", *(_file_line(f, cwd) for f in plan.files[:MOST_LISTED])])
        )
    if "memory" in parts and plan.blocks:
        sections.append("\n".join(["Memory:", *(f"- `{block.label}` {block.sentence}" for block in plan.blocks)]))
    if "files" in parts and plan.left_out:
        sections.append(_not_kept(plan))
    return "\n\n".join(sections) or "None of these would change."


def answer_text(
    plan: RewindPlan, parts: Sequence[str], done: Rewound, *, overwrite: bool, cwd: str, fork: Fork | None = None
) -> str:
    """Report of a rewind; `fork` is the session that has the conversation now."""
    lines = [f"---\n\n**Back to {plan.target.words}.**"]
    if fork is not None:
        lines.append(f"The conversation continues in another session, since it is shared. {fork_sentence(fork)}")
    elif "conversation" in parts:
        if plan.lost:
            stay = "it stays" if len(plan.lost) == 1 else "they stay"
            lines.append(f"The model no longer knows {plural(len(plan.lost), 'turn')}; {stay} in the journal.")
        if plan.regained:
            lines.append(f"The model knows {plural(len(plan.regained), 'turn')} again.")
    if done.files:
        names = ", ".join(f"`{display_path(path, cwd)}`" for path in done.files[:MOST_LISTED])
        lines.append(f"{plural(len(done.files), 'file')} put back: {names}.")
    if "files" in parts and plan.conflicts and not overwrite:
        lines.append(_left(plan, cwd))
    if "files" in parts and plan.left_out:
        lines.append(_not_kept(plan))
    if done.blocks:
        lines.append(f"Memory put back: {', '.join(f'`{label}`' for label in done.blocks)}.")
    lines += [f"> {problem}" for problem in (*done.problems, *refused(plan, parts))]
    if parts_here(plan.target, parts):
        lines.append("`/rewind undo` takes this back.")
    return "\n\n".join(lines)


def fork_sentence(fork: Fork) -> str:
    """Sentence on how far a fork goes, and how to open it."""
    return (
        f"“{fork.title}” begins with {plural(fork.turns, 'turn')} of this session: `{fork.session_id}`. "
        f"Open it from the list of sessions, or in a terminal: `pattern-acp chat --session {fork.session_id}`. "
        "This one continues as it is."
    )


def _left(plan: RewindPlan, cwd: str) -> str:
    names = ", ".join(f"`{display_path(file.path, cwd)}`" for file in plan.conflicts[:MOST_LISTED])
    why = "others changed them"
    if any(not file.now.is_kept for file in plan.conflicts):
        why += " or an undo could not bring back what they hold"
    return f"Left as they are, since {why}: {names}. Add `overwrite` to put them back too."


def _not_kept(plan: RewindPlan) -> str:
    return "\n".join(["Not saved, so not put back:", *(f"- {line}" for line in plan.left_out)])


def refused(plan: RewindPlan, parts: Sequence[str]) -> list[str]:
    """A sentence about each file and block that the plan says cannot be put back, of the parts that go back."""
    files = plan.files if "files" in parts else ()
    blocks = plan.blocks if "memory" in parts else ()
    return [
        *(f"{file.path} was not put back: {file.problem}." for file in files if file.problem),
        *(f"The block {block.label!r} {block.sentence}." for block in blocks if not block.changes),
    ]


def _turns(what: str, turns: Sequence[str]) -> list[str]:
    if not turns:
        return []
    return ["\n".join([f"{what} {plural(len(turns), 'turn')}:", *(f"- {turn}" for turn in turns[-MOST_LISTED:])])]


def _file_line(file: PlannedFile, cwd: str) -> str:
    mode = f"gets mode {file.then.mode:o}"
    what = {"delete": "is deleted", "create": "comes back", "mode": mode, "modify": "is put back"}[file.kind]
    note = ""
    if file.problem:
        what, note = "stays", f" ({file.problem})"
    elif file.conflict:
        note = f" — conflict: {file.conflict}; left alone unless you say otherwise"
    return f"- `{display_path(file.path, cwd)}` {what}{note}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
