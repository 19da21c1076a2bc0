"""Changing files: what would change, and making exactly that change, in all of them or in none.

Owns: the rule that what is written is what was shown, on the text it was shown for; that files written before one that
cannot be are put back; and what the model learns of it. Must not know: how the new texts came about.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.access import WritePath
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import cut_middle, numbered, short_diff
from pattern_acp.domain.tool_calls import DiffContent, Location, TextContent, ToolContent
from pattern_acp.tools.base import (
    CodeTarget,
    PreparedCall,
    Progress,
    ToolContext,
    ToolFailedError,
    ToolOutcome,
    confirm_target,
)
from pattern_acp.tools.read_file import text_lines
from pattern_acp.workspace.errors import FileChangedError, FileMissingError
from pattern_acp.workspace.files import TextFile
from pattern_acp.workspace.local_files import temporary_beside

SENTENCE_ROOM = 400
"""Characters of a result reserved for the sentences round a file's text."""

WHOLE_CHARACTERS = 200_000
"""Characters of both texts of a file together up to which its diff holds them whole."""

RESTORE_SECONDS = 0.8
"""Longest that putting files back may take; a cancelled call has a second to end (turn/tool_runner.py)."""


class PlannedFileChange(Struct, frozen=True):
    """A change that is understood: the file it is for (`before` None: it is new), the whole new text, and what to say.

    `after` is None when the file is to be deleted; `moved_to` is its new name when it gets one. `line` is the first
    changed line, `summary` a sentence in the past tense, `knows_text` whether the model knows the whole text that the
    change is based on.
    """

    target: CodeTarget
    before: TextFile | None
    after: str | None
    summary: str
    line: int = 1
    knows_text: bool = False
    moved_to: CodeTarget | None = None

    @property
    def old_text(self) -> str | None:
        """The text before, None for a new file."""
        return None if self.before is None else self.before.text

    @property
    def targets(self) -> tuple[CodeTarget, ...]:
        """Every name that the change touches."""
        return (self.target,) if self.moved_to is None else (self.target, self.moved_to)

    @property
    def location(self) -> Location:
        """The location of the file afterwards, or before."""
        return Location((self.moved_to or self.target).path, self.line)

    def diffs(self, after: str | None) -> tuple[ToolContent, ...]:
        """The change for the user, with `after` as its outcome: both names of a moved file, "" for a deleted one.

        Of a large file only the changed places: the journal keeps what is shown, and an editor reads it in one line.
        """
        if self.moved_to is not None and after is not None:
            gone = DiffContent(self.target.path, self.old_text, "", is_gone=True)
            return (gone, DiffContent(self.moved_to.path, None, after, moved_from=self.target.path))
        if after is None:
            return (DiffContent(self.target.path, self.old_text, "", is_gone=True),)
        return shown_change(self.target.path, self.old_text, after)


def shown_change(path: str, old: str | None, after: str) -> tuple[ToolContent, ...]:
    """Show the change of a text to the user, None for a new file; of a large file only the changed places."""
    if old is None or len(old) + len(after) <= WHOLE_CHARACTERS:
        return (DiffContent(path, old, after),)
    regions, left_out = regions_within(old, after, WHOLE_CHARACTERS // 2)
    places = tuple(DiffContent(path, region.old, region.new) for region in regions)
    return (*places, TextContent(more_places(left_out, path))) if left_out else places


async def read_if_there(target: CodeTarget, context: ToolContext) -> TextFile | None:
    """The file's text, or None when there is no such file.

    Raises:
        WorkspaceError: there is something that cannot be read as text.
    """
    try:
        return await context.files.read_text_file(target.path)
    except FileMissingError:
        return None


def prepared_change(title: str, change: PlannedFileChange, context: ToolContext) -> PreparedCall:
    """The call that makes the change, with its diff as the preview."""
    return prepared_changes(title, (change,), context)


def prepared_changes(title: str, changes: Sequence[PlannedFileChange], context: ToolContext) -> PreparedCall:
    """The call that makes all changes or none, with their diffs as the preview; policy decides on every path."""
    shown = tuple(change.diffs(change.after) for change in changes)
    return PreparedCall(
        title=title,
        accesses=write_accesses([target for change in changes for target in change.targets]),
        run=partial(_make_changes, tuple(changes), shown, context),
        locations=tuple(change.location for change in changes),
        preview=tuple(diff for diffs in shown for diff in diffs),
    )


def write_accesses(targets: Sequence[CodeTarget]) -> tuple[WritePath, ...]:
    """Return the accesses that policy decides on, each path once."""
    return tuple(WritePath(path) for path in dict.fromkeys(target.resolved for target in targets))


def changed_since(sentence: str, target: CodeTarget, file: TextFile, context: ToolContext) -> FileChangedError:
    """The refusal of a change that was not made for the file's present text, which it shows to the model.

    From here on, the model counts as having read the file.
    """
    context.read_fingerprints[target.resolved] = file.fingerprint
    shown = cut_middle(numbered(text_lines(file.text), 1), max(context.result_limit - SENTENCE_ROOM, 0)).text
    return FileChangedError(f"{sentence} Nothing was written.", advice=f"The text now is:\n{shown or '(empty)'}")


def require_current(target: CodeTarget, file: TextFile, context: ToolContext) -> bool:
    """Tell whether the model has read the file.

    Raises:
        FileChangedError: it has, and the file was changed since.
    """
    known = context.read_fingerprints.get(target.resolved)
    if known is not None and known != file.fingerprint:
        sentence = f"{target.shown} was changed since it was read, so nothing was edited."
        raise changed_since(sentence, target, file, context)
    return known is not None


class _Undo(Struct, frozen=True):
    """The way to undo one change that may have been made, wholly or in part."""

    shown: str
    run: Callable[[], Awaitable[bool]]
    """True when there was something to take back."""


async def _make_changes(
    changes: tuple[PlannedFileChange, ...],
    shown: tuple[tuple[ToolContent, ...], ...],
    context: ToolContext,
    _progress: Progress,
) -> ToolOutcome:
    for change in changes:
        await _confirm_unchanged(change, context)
    await _note_before(changes, context)
    undos: list[_Undo] = []
    aside: list[str] = []
    written: dict[int, TextFile] = {}
    # Deletions come last: a text that was never written over needs no putting back.
    order = sorted(range(len(changes)), key=lambda at: changes[at].after is None)
    try:
        for at in order:
            file = await _make_one(changes[at], context, undos, aside)
            if file is not None:
                written[at] = file
    except PatternError as error:
        raise await _failed(error, undos) from error
    except BaseException:
        if len(changes) > 1:
            await _take_back(undos)
        raise
    for path in aside:
        await context.files.remove_file(path)
    _note_gone(changes, context)
    return await _outcome(changes, shown, written, context)


async def _note_before(changes: Sequence[PlannedFileChange], context: ToolContext) -> None:
    """Let language servers see what was wrong before: only what is new will be reported."""
    if context.languages is not None:
        for change in changes:
            if change.after is not None:
                await context.languages.note_before((change.moved_to or change.target).path, change.old_text)


def _note_gone(changes: Sequence[PlannedFileChange], context: ToolContext) -> None:
    if context.languages is not None:
        for change in changes:
            if change.after is None or change.moved_to is not None:
                context.languages.note_gone(change.target.path)


async def _make_one(
    change: PlannedFileChange, context: ToolContext, undos: list[_Undo], aside: list[str]
) -> TextFile | None:
    # Reading may take an editor's round trip, in which a link could be swapped; so this check comes last.
    for target in change.targets:
        await confirm_target(target)
    path = change.target.path
    if change.after is None:
        # Set aside first: bytes, mode and encoding come back exactly when a later file cannot be deleted.
        kept = str(temporary_beside(Path(path)))
        undos.append(_Undo(change.target.shown, partial(_move_back, context, kept, path)))
        await context.files.move_file(path, kept)
        aside.append(kept)
        return None
    if change.moved_to is None:
        undos.append(_Undo(change.target.shown, partial(_write_back, context, path, change.old_text)))
        return await context.files.write_text_file(path, change.after)
    to = change.moved_to.path
    undos.append(_Undo(change.target.shown, partial(_rename_back, context, change, to)))
    await context.files.move_file(path, to)
    file = await context.files.read_text_file(to)
    return file if file.text == change.after else await context.files.write_text_file(to, change.after)


async def _failed(error: PatternError, undos: Sequence[_Undo]) -> PatternError:
    """The error, with what became of the files that were written before it."""
    back, lost = await _take_back(undos)
    sentences = [error.sentence]
    if back:
        sentences.append(f"What had been written before was put back: {', '.join(back)}.")
    if lost:
        sentences.append(f"These could not be put back and must be looked at: {', '.join(lost)}.")
    return error if len(sentences) == 1 else ToolFailedError(" ".join(sentences))


async def _take_back(undos: Sequence[_Undo]) -> tuple[list[str], list[str]]:
    """Take back what was done, newest first; the files that were put back, and those that could not be."""
    back: list[str] = []
    lost = [undo.shown for undo in reversed(undos)]
    with anyio.CancelScope(shield=True), anyio.move_on_after(RESTORE_SECONDS):
        for undo in reversed(undos):
            try:
                was_done = await undo.run()
            except PatternError:
                continue
            lost.remove(undo.shown)
            if was_done:
                back.append(undo.shown)
    return back, lost


async def _write_back(context: ToolContext, path: str, text: str | None) -> bool:
    try:
        now = (await context.files.read_text_file(path)).text
    except FileMissingError:
        now = None
    if now == text:
        return False
    if text is None:
        await context.files.remove_file(path)
    else:
        await context.files.write_text_file(path, text)
    return True


async def _move_back(context: ToolContext, kept: str, path: str) -> bool:
    try:
        await context.files.move_file(kept, path)
    except FileMissingError:
        return False
    return True


async def _rename_back(context: ToolContext, change: PlannedFileChange, to: str) -> bool:
    if await anyio.to_thread.run_sync(Path(change.target.path).exists):
        return False
    await context.files.move_file(to, change.target.path)
    await _write_back(context, change.target.path, change.old_text)
    return True


async def _outcome(
    changes: Sequence[PlannedFileChange],
    shown: Sequence[tuple[ToolContent, ...]],
    written: dict[int, TextFile],
    context: ToolContext,
) -> ToolOutcome:
    sentences: list[str] = []
    diffs: list[ToolContent] = []
    for at, change in enumerate(changes):
        file = written.get(at)
        sentences.append(change.summary)
        after = None if file is None else file.text
        # What was shown for approval is the outcome too, unless saving changed the text further.
        diffs += shown[at] if after == change.after else change.diffs(after)
        if file is None or change.after is None:
            context.read_fingerprints.pop(change.target.resolved, None)
            continue
        if file.text != change.after:
            saved = "On saving it was changed further, by a formatter or the user"
            if context.may_read(change.targets[-1].resolved):
                diff = await anyio.to_thread.run_sync(short_diff, change.after, file.text)
                sentences.append(f"{saved}:\n{diff}")
            else:
                sentences.append(f"{saved}; read it again before you change more.")
        if change.moved_to is not None:
            context.read_fingerprints.pop(change.target.resolved, None)
        if change.knows_text:
            context.read_fingerprints[change.targets[-1].resolved] = file.fingerprint
    return ToolOutcome(
        "\n".join(sentences),
        content=tuple(diffs),
        locations=tuple(change.location for change in changes),
        changed=tuple(changes[at].location.path for at in sorted(written)),
    )


async def _confirm_unchanged(change: PlannedFileChange, context: ToolContext) -> None:
    if change.moved_to is not None and await read_if_there(change.moved_to, context) is not None:
        raise FileChangedError(f"{change.moved_to.shown} was created meanwhile. Nothing was written.")
    now = await read_if_there(change.target, context)
    if now is None:
        if change.before is not None:
            raise FileChangedError(f"{change.target.shown} was deleted meanwhile. Nothing was written.")
        return
    if change.before is None or now.text != change.before.text:
        sentence = f"{change.target.shown} was changed after this change was prepared."
        if not context.may_read(change.target.resolved):
            # The one who allowed the change has seen the text that it was made for, and not this one.
            raise FileChangedError(f"{sentence} Nothing was written.", advice="Read it again before you change it.")
        raise changed_since(sentence, change.target, now, context)


CONTEXT_LINES = 20
"""Unchanged lines shown at either side of a place."""


class Region(Struct, frozen=True):
    """One changed place with its surroundings: lines as they were and are; `line` is 1-based, in the new text."""

    old: str
    new: str
    line: int


class _Run(Struct, frozen=True):
    """Lines `old_from` to `old_to` became lines `new_from` to `new_to`, ends left out."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def changed_regions(old: str, new: str) -> list[Region]:
    """The changed places in their order; those whose surroundings meet are one."""
    if old == new:
        return []
    start, old_end, new_end = _bounds(old, new)
    before, after = _lines(old[start:old_end]), _lines(new[start:new_end])
    first = new.count("\n", 0, start) + 1
    regions: list[Region] = []
    for run in _merged(_runs(before, after)):
        above = min(CONTEXT_LINES, run.old_from, run.new_from)
        below = min(CONTEXT_LINES, len(before) - run.old_to, len(after) - run.new_to)
        was = before[run.old_from - above : run.old_to + below]
        now = after[run.new_from - above : run.new_to + below]
        regions.append(Region("".join(was), "".join(now), first + run.new_from - above))
    return regions


def regions_within(old: str, new: str, characters: int) -> tuple[list[Region], int]:
    """The first changed places that together take at most so many characters, at least one; how many are left out."""
    regions = changed_regions(old, new)
    room, count = characters, 0
    for region in regions:
        room -= max(len(region.old), len(region.new))
        if count and room < 0:
            break
        count += 1
    return regions[:count], len(regions) - count


def more_places(count: int, path: str) -> str:
    """The sentence for changed places that are not shown."""
    return f"{count:,} more changed {'place' if count == 1 else 'places'} in {path}, too much to show here."


def _bounds(old: str, new: str) -> tuple[int, int, int]:
    """Find the differing middle: where it starts, and where it ends in both, on line ends and with its surroundings."""
    head = _common(old, new, min(len(old), len(new)), from_end=False)
    tail = _common(old, new, min(len(old), len(new)) - head, from_end=True)
    start = head
    for _ in range(CONTEXT_LINES + 1):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
    end = len(old) - tail
    for _ in range(CONTEXT_LINES + 1):
        end = old.find("\n", end) + 1 or len(old)
    return start, end, len(new) - (len(old) - end)


def _common(old: str, new: str, limit: int, *, from_end: bool) -> int:
    """Count the characters that both share at one end, at most `limit`; by comparing ever smaller pieces."""
    same, piece = 0, limit
    while piece:
        if from_end:
            at, there = len(old) - same, len(new) - same
            is_same = old[at - piece : at] == new[there - piece : there]
        else:
            is_same = old[same : same + piece] == new[same : same + piece]
        if is_same:
            same += piece
        piece = min(piece if is_same else piece // 2, limit - same)
    return same


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _runs(before: Sequence[str], after: Sequence[str]) -> Iterator[_Run]:
    """Yield the differences between two lists of lines, aligned at lines that either has once."""
    once = _in_both_once(before, after)
    at, to = 0, 0
    while at < len(before) or to < len(after):
        if at < len(before) and to < len(after) and before[at] == after[to]:
            at += 1
            to += 1
            continue
        end, new_end = _next_meeting(before, once, at, to) or (len(before), len(after))
        # Lines that occur more often may be the same just before the meeting.
        while end > at and new_end > to and before[end - 1] == after[new_end - 1]:
            end -= 1
            new_end -= 1
        yield _Run(at, end, to, new_end)
        at, to = end, new_end


def _in_both_once(before: Sequence[str], after: Sequence[str]) -> dict[str, int]:
    """Lines that both have exactly once, with their place in `after`."""
    here, there = Counter(before), Counter(after)
    return {line: at for at, line in enumerate(after) if there[line] == 1 and here[line] == 1}


def _next_meeting(before: Sequence[str], once: dict[str, int], at: int, to: int) -> tuple[int, int] | None:
    for place in range(at, len(before)):
        there = once.get(before[place])
        if there is not None and there >= to:
            return place, there
    return None


def _merged(runs: Iterator[_Run]) -> Iterator[_Run]:
    last: _Run | None = None
    for run in runs:
        if last is None:
            last = run
        elif run.old_from - last.old_to <= 2 * CONTEXT_LINES:
            last = _Run(last.old_from, run.old_to, last.new_from, run.new_to)
        else:
            yield last
            last = run
    if last is not None:
        yield last
