"""What must hold of each answer, command and line of the log in a random walk.

Owns: `WalkJudge` with its findings, and running commands of ours under it. Must not know: which steps a walk takes.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tests.support.editor import JsonDict
from tests.support.process import COMMAND, agent_environment
from tests.support.walk_editor import WalkEditor

COMMAND_SECONDS = 60.0
"""Longest that a command of ours may take on a loaded machine."""

EXIT_SECONDS = 20.0

UNFORESEEN = re.compile(r"failed unexpectedly|nobody foresaw|Traceback \(most recent|agent\.fault|tool\.fault")
"""What is only said or logged when the program did not foresee something."""

QUOTING = frozenset({"explain", "journal", "sessions"})
"""Commands whose output may hold such words, as others said them."""

MANY_LINES = frozenset({"chat", "journal"})
"""Commands whose JSON is one value a line."""

STATES = frozenset({"session.held-elsewhere", "database.busy"})
"""Failures that are -32603 on purpose: nothing is wrong with the request, and it works later."""

SAID_IN_ONE_SENTENCE = re.compile(r"[^\n]*[.?`)]\s*")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be."""

    step: int
    action: str
    what: str

    def __str__(self) -> str:
        return f"step {self.step}, {self.action}: {self.what}"


class WalkJudge:
    """Keeps the steps and what was found; `tell` is given each line as it comes."""

    def __init__(self, home: Path, environment: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self.findings: list[Finding] = []
        self.steps: list[str] = []
        self._home = home
        self._environment = environment
        self._tell = tell
        self._log_read = 0
        self._step_at = time.monotonic()

    def note(self, action: str) -> str:
        """A step begins; its words as they are kept."""
        self.steps.append(action[:600])
        now = time.monotonic()
        self._tell(f"   {now - self._step_at:.1f} s\n{len(self.steps)} {action[:300]}")
        self._step_at = now
        return self.steps[-1]

    def find(self, what: str, action: str | None = None) -> None:
        """Something is wrong with the newest step, or with an earlier one."""
        finding = Finding(len(self.steps), action or self.steps[-1], what[:3000])
        self.findings.append(finding)
        self._tell(f"FOUND {finding}")

    def answer(self, answer: JsonDict | None, action: str | None = None) -> JsonDict | None:
        """The result of an answer; None when it is late or an error, which has to be a foreseen one with its code."""
        if answer is None:
            self.find("There was no answer in time.", action)
            return None
        if "result" in answer:
            self.words(json.dumps(answer["result"]), action)
            return cast("JsonDict", answer["result"])
        error = answer["error"]
        self._tell(f"   error {json.dumps(error)[:400]}")
        self.words(json.dumps(error), action)
        code = cast("JsonDict", error.get("data") or {}).get("code")
        if code is None or (error["code"] == -32603 and code not in STATES):
            self.find(f"No foreseen error: {json.dumps(error)[:1500]}", action)
        elif error["code"] != -32002 and SAID_IN_ONE_SENTENCE.fullmatch(error["message"]) is None:
            self.find(f"Not one sentence: {error['message']!r}", action)
        return None

    def words(self, text: str, action: str | None = None) -> None:
        """No text that a person reads tells of something that nobody foresaw."""
        found = UNFORESEEN.search(text)
        if found is not None:
            self.find(f"Not foreseen: {text[max(found.start() - 500, 0) : found.start() + 2500]}", action)

    def editor(self, editor: WalkEditor) -> None:
        """What the judge of lines found, and what the process wrote on standard error."""
        for fault in editor.faults:
            self.find(f"wire: {fault}")
        editor.faults.clear()
        self.words(editor.stderr())

    def close(self, editor: WalkEditor) -> None:
        """The end of input ends the process with 0 in time."""
        code = editor.close(EXIT_SECONDS)
        if code != 0:
            self.find(f"The agent ended with {code} after the end of input: {editor.stderr()[-600:]}")
        self.editor(editor)

    def log(self) -> None:
        """The log holds no traceback."""
        file = self._home / "state" / "pattern-acp.log"
        data = file.read_bytes() if file.exists() else b""
        new = data[self._log_read :] if len(data) >= self._log_read else data
        self._log_read = len(data)
        self.words(new.decode("utf-8", "replace"))

    def command(self, arguments: tuple[str, ...]) -> tuple[int, str]:
        """Run a command of ours: its exit code, and all it said."""
        passed = [_typable(each) for each in arguments]
        self.note(f"command {passed!a}")
        environment = {**agent_environment(self._home), **self._environment}
        try:
            done = subprocess.run(
                [*COMMAND, *passed],
                env=environment,
                capture_output=True,
                timeout=COMMAND_SECONDS,
                check=False,
                cwd=self._home.parent,
                input=b"",
            )
        except subprocess.TimeoutExpired:
            self.find("The command did not end in time.")
            return -1, ""
        out, errors = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        if done.returncode:
            self._tell(f"   exit {done.returncode} {ascii(errors)[:400]} {ascii(out)[:200]}")
        self._judge_command(passed, done.returncode, out, errors)
        return done.returncode, f"{out}\n{errors}"

    def expect(self, arguments: tuple[str, ...]) -> str:
        """A command of ours that has to succeed; what it said."""
        code, said = self.command(arguments)
        if code != 0:
            self.find(f"The check ended with {code}: {said[-2500:]}")
        return said

    def _judge_command(self, arguments: list[str], code: int, out: str, errors: str) -> None:
        if code not in {0, 1, 2}:
            self.find(f"The command ended with {code}: {errors[-1000:]}")
        if code != 0 and not errors.strip() and not out.strip():
            self.find(f"The command ended with {code} and said nothing.")
        self.words(errors if arguments[0] in QUOTING else f"{out}\n{errors}")
        if "--json" in arguments and out.strip():
            try:
                for each in out.splitlines() if arguments[0] in MANY_LINES else [out]:
                    json.loads(each)
            except ValueError as error:
                self.find(f"What the command wrote is not JSON ({error}): {out[:500]}")


def _typable(argument: str) -> str:
    """What a shell can pass of it: no NUL, of lone surrogates those that stand for bytes that are no UTF-8."""
    kept = (each for each in argument[:30_000] if each != "\0" and not ("\ud800" <= each < "\udc80"))
    return "".join("" if "\udcff" < each <= "\udfff" else each for each in kept)
