"""A seeded random walk over the real process: what people and editors do, in an order that nobody thought of.

Owns: choosing steps, and what the walk knows of sessions and windows. Must not know: how the agent works.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

from tests.support.editor import JsonDict
from tests.support.walk_actions import command_line, edit_words, prompt_blocks, request, slash_command
from tests.support.walk_editor import WalkEditor
from tests.support.walk_end import Walked, check_end
from tests.support.walk_judge import WalkJudge
from tests.support.walk_script import LABELS, script_turns
from tests.support.walk_texts import fill_folder, settings, word

ANSWER_SECONDS = 60.0
"""Longest that a prompt of the walk's script, or any other request, may take on a loaded machine."""

WAITING = 0.6
"""Share of prompts whose answer is waited for; the others run beside what comes next."""

FOREIGN = 0.05
"""Share of requests that name a session of nobody."""

OPENING = frozenset({"session/load", "session/resume", "_pattern/session/open"})
MAKING = frozenset({"session/new", "session/fork", "_pattern/session/fork"})


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt without an answer yet."""

    editor: WalkEditor
    request_id: str
    session: str
    action: str
    marker: str
    deadline: float


@dataclass(slots=True)
class _Window:
    """An editor with its sessions."""

    editor: WalkEditor
    open: list[str] = field(default_factory=list[str])


class Walk:
    """One walk in the empty folder `folder`; `run` it, then read what `judge` found."""

    def __init__(self, seed: int, folder: Path, *, tell: Callable[[str], None] = lambda _line: None) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._folder = folder
        self._home = folder / "home"
        self._home.mkdir()
        self._projects = (folder / "p1", folder / "p2 ö")
        for project in self._projects:
            fill_folder(project)
        (self._home / "config.toml").write_text(settings(self._random), "utf-8")
        script = folder / "script.json"
        script.write_text(json.dumps({"turns": script_turns(self._random), "repeat": True, "chunk": 40}), "utf-8")
        self._environment = {"PATTERN_ACP_SCRIPT": str(script), "PATTERN_ACP_MODEL": "scripted/scripted"}
        self.judge = WalkJudge(self._home, self._environment, tell)
        self._windows: list[_Window] = []
        self._prompts: list[_Prompt] = []
        self._walked = Walked(seed, folder, self._projects)
        self._options: list[tuple[str, str]] = []

    def run(self, steps: int) -> None:
        """Walk so many steps, end every process, and check what must hold at the end."""
        try:
            self._open_window()
            for _ in range(steps):
                self._step()
            self._settle(until_none=True)
            while self._windows:
                self.judge.note("close input")
                self.judge.close(self._windows.pop().editor)
            window = self._open_window()
            check_end(self.judge, window.editor, window.open[0], self._walked)
            self.judge.log()
        finally:
            for window in self._windows:
                window.editor.kill()

    def _step(self) -> None:
        chance = self._random.random()
        if chance < 0.26:
            self._prompt(is_command=False)
        elif chance < 0.58:
            self._prompt(is_command=True)
        elif chance < 0.74:
            self._request()
        elif chance < 0.88:
            self.judge.command(command_line(self._random, self._walked.sessions, self._random.choice(self._projects)))
        elif chance < 0.94:
            window, session = self._pick()
            self.judge.note(f"cancel {session}")
            window.editor.tell("session/cancel", {"sessionId": session})
        else:
            self._change_windows()
        self._settle()
        self.judge.log()

    def _open_window(self) -> _Window:
        self.judge.note("open window")
        window = _Window(WalkEditor(self._home, self._folder, self._environment, self._random))
        self._windows.append(window)
        self.judge.answer(window.editor.asked("initialize", window.editor.initializing, ANSWER_SECONDS))
        self._new_session(window)
        return window

    def _new_session(self, window: _Window) -> None:
        params: JsonDict = {"cwd": str(self._random.choice(self._projects)), "mcpServers": []}
        result = self.judge.answer(window.editor.asked("session/new", params, ANSWER_SECONDS))
        if result is not None:
            self._learn(window, result, str(result["sessionId"]))

    def _learn(self, window: _Window, result: JsonDict, session: str) -> None:
        for known in (self._walked.sessions, window.open):
            if session not in known:
                known.append(session)
        for option in cast("list[JsonDict]", result.get("configOptions") or []):
            self._options += [(str(option["id"]), str(choice["value"])) for choice in option["options"]]
        self._options = self._options[-40:]

    def _change_windows(self) -> None:
        window = self._random.choice(self._windows)
        chance = self._random.random()
        if chance < 0.35 and len(self._windows) < 2:
            self._open_window()
        elif chance < 0.7:
            self.judge.note("kill")
            window.editor.kill()
            self.judge.editor(window.editor)
            self._leave(window)
        elif chance < 0.85:
            self.judge.note("close input")
            self.judge.close(window.editor)
            self._leave(window)
        else:
            self.judge.note("new session")
            self._new_session(window)

    def _leave(self, window: _Window) -> None:
        self._windows.remove(window)
        self._prompts = [each for each in self._prompts if each.editor is not window.editor]
        if not self._windows:
            self._open_window()

    def _pick(self) -> tuple[_Window, str]:
        """A window, and mostly a session that is open in it."""
        window = self._random.choice(self._windows)
        if self._random.random() < FOREIGN:
            return window, word(self._random, "ses_nosuch", *self._walked.sessions)
        if not window.open or self._random.random() < 0.1:
            session = self._random.choice(self._walked.sessions)
            self.judge.note(f"load {session}")
            params: JsonDict = {"sessionId": session, "cwd": str(self._projects[0]), "mcpServers": []}
            result = self.judge.answer(window.editor.asked("session/load", params, ANSWER_SECONDS))
            if result is not None:
                self._learn(window, result, session)
        if not window.open:
            self._new_session(window)
        return window, self._random.choice(window.open)

    def _prompt(self, *, is_command: bool) -> None:
        window, session = self._pick()
        marker = f"mk{self._seed}x{len(self.judge.steps)}"
        if not is_command:
            content = prompt_blocks(self._random, self._random.choice(self._projects), marker)
        elif self._random.random() < 0.1:
            content = [{"type": "text", "text": edit_words(self._random, self._random.choice(LABELS))}]
        else:
            content = [{"type": "text", "text": slash_command(self._random, self._walked.sessions)}]
        action = self.judge.note(f"prompt {session} {content!a}")
        request_id = window.editor.ask("session/prompt", {"sessionId": session, "prompt": content})
        kept = marker if marker in json.dumps(content) else ""
        deadline = time.monotonic() + ANSWER_SECONDS
        self._prompts.append(_Prompt(window.editor, request_id, session, action, kept, deadline))
        if self._random.random() < WAITING:
            window.editor.wait(request_id, ANSWER_SECONDS)

    def _request(self) -> None:
        window, session = self._pick()
        method, params = request(self._random, session, self._random.choice(self._projects), self._options)
        self.judge.note(f"request {method} {params!a}")
        result = self.judge.answer(window.editor.asked(method, params, ANSWER_SECONDS))
        if result is None:
            return
        if method in {"session/close", "session/delete"} and session in window.open:
            window.open.remove(session)
        if method in OPENING | MAKING:
            self._learn(window, result, session if method in OPENING else str(result["sessionId"]))

    def _settle(self, *, until_none: bool = False) -> None:
        """Judge the prompts that were answered, or should have been."""
        left: list[_Prompt] = []
        for prompt in self._prompts:
            if until_none:
                prompt.editor.wait(prompt.request_id, max(prompt.deadline - time.monotonic(), 0.1))
            if not prompt.editor.answered(prompt.request_id) and time.monotonic() < prompt.deadline:
                left.append(prompt)
                continue
            result = self.judge.answer(prompt.editor.wait(prompt.request_id, 0.01), prompt.action)
            self.judge.words(prompt.editor.take_said(prompt.session), prompt.action)
            elsewhere = prompt.session in prompt.editor.person.elsewhere
            if result is not None and prompt.marker and result.get("stopReason") != "cancelled" and not elsewhere:
                self._walked.markers.setdefault(prompt.session, []).append(prompt.marker)
        self._prompts = left
        for window in self._windows:
            self.judge.editor(window.editor)
