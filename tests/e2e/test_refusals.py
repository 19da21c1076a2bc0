"""Ways round an allowance, tried on the real process: each is asked about, and what is refused has not run.

The whole corpus is in tests/policy/test_refusals.py; here are lines that would leave a mark if any of them ran.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tests.support.agent import FULL_CLIENT
from tests.support.editor import JsonDict
from tests.support.editor_terminals import really_run
from tests.support.process import Launch, running_process, write_script

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.needs("git", "bash"),
]

READING = ("git status", "ls -a", "cat a.txt")
"""Runs without a question."""

ALLOWED = ("./check",)
"""Answered with an always."""

COVERED = (
    "git status --short", "ls src", "cat src/b.txt a.txt", "./check", "cat a.txt && git status", "cd src && ls",
    "cd bare && git status",
)  # fmt: skip
"""Run without a question afterwards; the last one in files that look like a repository and name a program."""

MARK = "touch ran"
TRIED = (
    f"git status; {MARK}", f"git status && {MARK}", f"git status & {MARK}", f"git status\n{MARK}", f"ls || {MARK}",
    f"nothing-there || {MARK}", f"cat a.txt | sh -c '{MARK}'", f"ls $({MARK})", f"ls `{MARK}`", f"cat <({MARK})",
    f'cat "$({MARK})"', f"ls > $({MARK}; echo x)", "ls > ran", "cat a.txt >> ran", "cat a.txt > 'ran'", "> ran ls",
    f"cat <<E\n$({MARK})\nE", f"bash <<< '{MARK}'", f"alias ls='{MARK}'; ls", f"ls() {{ {MARK}; }}; ls",
    f"eval ls; eval '{MARK}'", f"trap '{MARK}' EXIT; ls", f"git -c core.pager='{MARK}' -p status",
    f"git -c alias.x='!{MARK}' x", f"git -c core.fsmonitor='{MARK};' status", f"GIT_EXTERNAL_DIFF='{MARK}' git diff",
    "git status --porcelain --output=ran", "git log --output=ran", f"env ls; env {MARK}", f"X=1 {MARK}",
    f"find . -maxdepth 0 -exec {MARK} \\;", f"ls | xargs -I@ {MARK}", "tar -cf ran a.txt",
    "tar -cf /dev/null a.txt --checkpoint=1 --checkpoint-action=exec='touch ran'",
    "awk 'BEGIN { system(\"touch ran\") }'",
    "sed '1e touch ran' a.txt", "sed -n 'w ran' a.txt", f"ssh -oProxyCommand='{MARK}' nowhere.invalid", "to{u,u}ch ran",
    "touch${IFS}ran", "$'\\x74ouch' ran", "t\\ouch ran", "''touch ran", f"coproc {MARK}", f"if ls; then {MARK}; fi",
    f"for x in 1; do {MARK}; done", "src/../evil", "cd src && ../evil", "cd deeper && ./check", "LS ran; cp a.txt ran",
    "ls\u00a0; touch ran", "git\u200bstatus; touch ran", "uniq a.txt ran", "split a.txt ran", "cp a.txt ran",
)  # fmt: skip
"""Each would leave a file whose name begins with `ran`."""

AUTO = (
    "kill -9 999999999", "docker run alpine", "curl http://127.0.0.1.invalid/", "sh -c 'touch ran; rm -rf nothing'",
    "cat ../outside", "git push https://nowhere.invalid/x", "npm install -g nothing", "cp a.txt ../ran",
    "echo x > .git/hooks/post-checkout", "$(echo touch) ran",
)  # fmt: skip
"""Asked about in `auto` too."""


def a_project(folder: Path) -> Path:
    project = folder / "project"
    for name in ("src", "deeper"):
        (project / name).mkdir(parents=True)
    (project / "a.txt").write_text("a\n")
    (project / "src" / "b.txt").write_text("b\n")
    for name, line in (("check", "true"), ("evil", MARK), ("deeper/check", MARK)):
        (project / name).write_text(f"#!/bin/sh\n{line}\n")
        (project / name).chmod(0o755)
    for name in ("objects", "refs"):
        (project / "bare" / name).mkdir(parents=True)
    (project / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    core = f'repositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "{MARK}; false"'
    (project / "bare" / "config").write_text(f"[core]\n{core}\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    return project


def files_below(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def runs(lines: Sequence[str]) -> list[JsonDict]:
    return [{"tool": "run_command", "arguments": {"command": line}} for line in lines]


async def answer(params: JsonDict) -> JsonDict:
    line = cast("str", params["toolCall"]["rawInput"]["command"])
    return {"outcome": "selected", "optionId": "allow_always" if line in ALLOWED else "reject_once"}


@pytest.mark.parametrize("capabilities", [{}, FULL_CLIENT], ids=["alone", "through the editor"])
async def test_nothing_that_was_not_allowed_runs_and_what_was_allowed_is_not_asked_again(
    tmp_path: Path, capabilities: JsonDict
):
    project = a_project(tmp_path)
    script = write_script(
        tmp_path,
        [
            [*runs(READING), *runs(ALLOWED), *runs(TRIED), *runs(COVERED)],
            [{"text": "Tried."}],
            runs([*AUTO, "cp a.txt made-in-auto"]),
            [{"text": "Tried again."}],
        ],
    )
    launch = Launch(tmp_path, environment=script, capabilities=capabilities, permission=answer)
    async with running_process(launch) as agent:
        agent.editor.terminals.run = really_run
        session = await agent.editor.open_session(str(project))
        assert await agent.editor.prompt(session, "Try.", deadline=100) == {"stopReason": "end_turn"}
        asked = [params["toolCall"]["rawInput"]["command"] for params in agent.editor.asked]
        assert asked == [*ALLOWED, *TRIED]

        agent.editor.asked.clear()
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert await agent.editor.prompt(session, "Try again.", deadline=100) == {"stopReason": "end_turn"}
        assert [params["toolCall"]["rawInput"]["command"] for params in agent.editor.asked] == list(AUTO)
    names = {path.name for path in files_below(tmp_path)}
    assert not {name for name in names if name.startswith("ran")}
    assert "made-in-auto" in names
