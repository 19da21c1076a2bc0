"""`pattern-acp policy`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import Policy
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.main import run_with

pytestmark = pytest.mark.e2e


def policy(home: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    project = home / "project"
    project.mkdir(exist_ok=True)
    environment = {"PATH": os.defpath, "PATTERN_ACP_HOME": str(home / "own"), "HOME": str(home)}
    command = [sys.executable, "-m", "pattern_acp", "policy", *words]
    return subprocess.run(command, cwd=project, env=environment, input=stdin, capture_output=True, check=False)


def test_each_line_of_stdin_is_decided_and_nothing_runs(tmp_path: Path):
    done = policy(tmp_path, "explain", "--allow", "run make *", "-", stdin=b"ls\ntouch made\nmake x\nrm -rf /\n")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["command"], row["decision"], row["layer"], row["rule"]) for row in rows] == [
        ("ls", "allow", "mode", "reading"),
        ("touch made", "ask", "mode", "command"),
        ("make x", "allow", "session", "allow run make *"),
        ("rm -rf /", "ask", "floor", "destructive"),
    ]
    assert not (tmp_path / "project" / "made").exists()
    done = policy(tmp_path, "explain", "-0", "-", stdin=b"ls\n-la\0pwd\0")
    assert [json.loads(line)["command"] for line in done.stdout.splitlines()] == ["ls\n-la", "pwd"]


def test_the_rules_of_the_project_and_the_sandbox_are_part_of_an_explanation(tmp_path: Path):
    settings = tmp_path / "project" / ".pattern"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text('[policy]\nask = ["run ls"]\nallow = ["run make"]\n', encoding="utf-8")
    done = policy(tmp_path, "explain", "--mode", "auto", "-", stdin=b"ls -l\nmake\ngit status\n")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["decision"], row["layer"], row["rule"]) for row in rows[:1]] == [("ask", "project", "ask run ls")]
    assert "a project may only add rules" in done.stderr.decode()
    # A machine without a sandbox runs in `auto` what only reads, and unconfined.
    assert rows[1]["decision"] == ("allow" if rows[1]["sandboxed"] else "ask")
    words = policy(tmp_path, "explain", "git status").stdout.decode()
    assert words.startswith("allow: It only reads")
    assert "What would change this decision: reading_commands" in words


def test_a_file_of_rules_is_checked_with_line_and_column_and_its_cases_are_tried(tmp_path: Path):
    file = tmp_path / "rules.toml"
    file.write_text('[policy]\nallow = [\n  "run make *",\n  "walk x",\n]\n', encoding="utf-8")
    problem = f"{file}:4: policy.allow: column 4: `walk` is no kind of rule"
    done = policy(tmp_path, "check", str(file))
    assert done.returncode == 1
    assert done.stdout.decode().startswith(problem)
    [found] = json.loads(policy(tmp_path, "check", "--json", str(file)).stdout)["problems"]
    assert found.startswith(problem)
    file.write_text('[policy]\nallow = ["run make *"]\n[[case]]\nrun = "make x"\nexpect = "allow"\n', encoding="utf-8")
    assert policy(tmp_path, "check", str(file)).returncode == 0
    assert policy(tmp_path, "test", str(file)).returncode == 0
    file.write_text('[policy]\n[[case]]\nrun = "make x"\nexpect = "allow"\n', encoding="utf-8")
    assert policy(tmp_path, "test", str(file)).returncode == 1
    case = '[[case]]\nrun = "git push"\nexpect = "{}"\nbranch = {}\n'
    cases = case.format("deny", '"main"') + case.format("ask", '"topic"')
    file.write_text(f'[policy]\ndeny = ["run git push when branch main"]\n{cases}', encoding="utf-8")
    assert policy(tmp_path, "test", str(file)).returncode == 0
    file.write_text(f"[policy]\n{case.format('ask', 5)}", encoding="utf-8")
    assert "`branch` as text" in policy(tmp_path, "test", str(file)).stderr.decode()


def grants(*words: str) -> Policy:
    arguments = parse_arguments(words)
    assert isinstance(arguments, Policy)
    return arguments


def test_a_terminal_lists_and_revokes_by_number(home: Process, capsys: pytest.CaptureFixture[str]):
    assert run_with(grants("policy", "grants"), home) == 0
    assert "Nothing is allowed or refused" in capsys.readouterr().out
    assert run_with(grants("policy", "grants", "--json"), home) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run_with(grants("policy", "grants", "revoke", "3"), home) == 1
    assert "No permission in force has the number 3" in capsys.readouterr().err
