"""Changing a file: what would change, and making exactly that change.

Owns: the rule that what is written is what was shown, on the text it was shown for; and what the model is told of it.
Must not know: how the new text came about.
"""

from functools import partial

import anyio.to_thread

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.tool_calls import DiffContent, Location
from pattern_acp.policy.access import WritePath
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolOutcome
from pattern_acp.tools.read_file import text_lines
from pattern_acp.tools.targets import Target, confirm_target, is_inside
from pattern_acp.tools.text_limits import cut_middle, numbered, short_diff
from pattern_acp.workspace.errors import FileChangedError, FileMissingError
from pattern_acp.workspace.files import TextFile

SENTENCE_ROOM = 400
"""Characters of a result kept free for the sentences round a file's text."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change that is understood: the file it is for (None: it is new), the whole new text, and what to say.

    `line` is the first changed line, `summary` a sentence in the past tense, `knows_text` whether the model knows the
    whole text that the change is based on.
    """

    target: Target
    before: TextFile | None
    after: str
    summary: str
    line: int = 1
    knows_text: bool = False

    @property
    def old_text(self) -> str | None:
        """The text before, None for a new file."""
        return None if self.before is None else self.before.text


async def read_if_there(target: Target, context: ToolContext) -> TextFile | None:
    """The file's text, or None when there is no such file.

    Raises:
        WorkspaceError: there is something that cannot be read as text.
    """
    try:
        return await context.files.read_text_file(target.path)
    except FileMissingError:
        return None


def prepared_change(title: str, change: FileChange, context: ToolContext) -> PreparedCall:
    """The call that makes the change, with its diff as the preview."""
    return PreparedCall(
        title=title,
        accesses=(WritePath(change.target.resolved),),
        run=partial(_make_change, change, context),
        locations=(Location(change.target.path, change.line),),
        preview=(DiffContent(change.target.path, change.old_text, change.after),),
    )


def prepared_failure(title: str, error: PatternError, target: Target, context: ToolContext) -> PreparedCall:
    """A call that will fail with `error`.

    Outside the roots the sentence waits until the access was allowed: it may tell what the file holds.

    Raises:
        PatternError: `error` itself, when the target lies inside the roots.
    """
    if is_inside(target, context):
        raise error

    async def fail(_progress: Progress) -> ToolOutcome:
        raise error

    return PreparedCall(title, (WritePath(target.resolved),), fail, (Location(target.path),))


def changed_since(sentence: str, target: Target, file: TextFile, context: ToolContext) -> FileChangedError:
    """The refusal of a change that was not made for the file's present text, which it shows to the model.

    From here on, the model counts as having read the file.
    """
    context.read_fingerprints[target.resolved] = file.fingerprint
    shown = cut_middle(numbered(text_lines(file.text), 1), max(context.result_limit - SENTENCE_ROOM, 0)).text
    return FileChangedError(f"{sentence} Nothing was written. The text now is:\n{shown or '(empty)'}")


async def _make_change(change: FileChange, context: ToolContext, _progress: Progress) -> ToolOutcome:
    target = change.target
    await _confirm_unchanged(change, context)
    # Reading may take an editor's round trip, in which a link could be swapped; so this check comes last.
    await confirm_target(target)
    written = await context.files.write_text_file(target.path, change.after)
    sentences = [change.summary]
    reformatted = written.text != change.after
    if reformatted:
        diff = await anyio.to_thread.run_sync(short_diff, change.after, written.text)
        sentences.append(f"On saving it was changed further, by a formatter or the person:\n{diff}")
    if change.knows_text:
        context.read_fingerprints[target.resolved] = written.fingerprint
    return ToolOutcome(
        "\n".join(sentences),
        content=(DiffContent(target.path, change.old_text, written.text),),
        locations=(Location(target.path, change.line),),
    )


async def _confirm_unchanged(change: FileChange, context: ToolContext) -> None:
    now = await read_if_there(change.target, context)
    if now is None:
        if change.before is not None:
            raise FileChangedError(f"{change.target.shown} was deleted meanwhile. Nothing was written.")
        return
    if change.before is None or now.fingerprint != change.before.fingerprint:
        sentence = f"{change.target.shown} was changed after this change was prepared."
        raise changed_since(sentence, change.target, now, context)
