"""What must hold when a random walk has ended, whatever it did.

Owns: the checks. Must not know: which steps led here.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pattern_acp.memory.forgotten import MARK, REDACTED
from tests.support.editor import JsonDict
from tests.support.walk_editor import WalkEditor
from tests.support.walk_judge import WalkJudge

SECONDS = 60.0

TAKEN_OUT = (MARK, REDACTED)
"""What stands in the place of words that were forgotten or redacted."""

LAST_WORDS = (
    "/remember {}",
    "/recall {}",
    "/search {}",
    "/memory",
    "/memory verify",
    "/export --overwrite end.md",
    "/usage",
)
"""Typed into a new session at the end; `{}` is a word that stands nowhere else."""


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk left behind."""

    seed: int
    folder: Path
    projects: Sequence[Path]
    sessions: list[str] = field(default_factory=list[str])
    markers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By session: words of prompts that were answered, and so have to be recorded."""


def check_end(judge: WalkJudge, editor: WalkEditor, session: str, walked: Walked) -> None:
    """Memory and search work in a new window, every session loads there, and all that is stored is sound."""
    new_word = f"last{walked.seed}"
    for words in LAST_WORDS:
        judge.note(f"prompt {words.format(new_word)}")
        params: JsonDict = {"sessionId": session, "prompt": [{"type": "text", "text": words.format(new_word)}]}
        judge.answer(editor.asked("session/prompt", params, SECONDS))
        said = editor.take_said(session)
        judge.words(said)
        if words.startswith(("/recall", "/search")) and new_word not in said:
            judge.find(f"A word of a moment ago was not found: {said[-1500:]}")
    there = [each for each in walked.sessions if _loads(judge, editor, each, walked.projects[0])]
    judge.close(editor)
    at = ("--cwd", str(walked.projects[0]))
    judge.expect(("journal", "verify"))
    judge.expect(("memory", "verify", *at))
    judge.expect(("doctor", "--verify"))
    for search in (("memory", "search", new_word, *at), ("sessions", "search", new_word, "--all")):
        if new_word not in judge.expect(search):
            judge.find("A word of a moment ago was not found.")
    for each in there:
        held = _recorded(judge, each, walked)
        missing = [marker for marker in walked.markers.get(each, ()) if marker not in held]
        if missing:
            judge.find(f"These prompts of {each} were answered and are not recorded: {missing}")
        # A call whose arguments lost words is another call.
        replay = judge.command if any(mark in held for mark in TAKEN_OUT) else judge.expect
        replay(("journal", "replay", each))


def _loads(judge: WalkJudge, editor: WalkEditor, session: str, folder: Path) -> bool:
    """Whether a session is there; it may have been deleted."""
    judge.note(f"load {session}")
    params: JsonDict = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
    return judge.answer(editor.asked("session/load", params, SECONDS)) is not None


def _recorded(judge: WalkJudge, session: str, walked: Walked) -> str:
    """All that a bundle of the session holds."""
    bundle = walked.folder / f"{session}.zip"
    judge.expect(("journal", "export", session, "--leave-out", "none", "-o", str(bundle)))
    if not bundle.exists():
        return ""
    with zipfile.ZipFile(bundle) as archive:
        return "".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())
