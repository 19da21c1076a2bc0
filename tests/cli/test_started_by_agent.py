"""Commands that decide in the user's place, run in a command that an agent started."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.cli.arguments import decides_for_user
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_table import GROUPS
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.settings import Flags
from pattern_acp.policy.own_program import READING, only_reads
from tests.support.process import COMMAND, COMMAND_SECONDS, agent_environment, run_command_line

REFUSED = (
    "setup",
    "definitions export 448dc361d592 out",
    "export x.car",
    "import x.car --accept all",
    "fork default trial",
    "merge trial --accept all",
    "tasks done 3",
    "tasks import TODO.md",
    "bundle add x --yes",
    "bundle update x",
    "bundle remove x --yes",
    "trust --yes .",
    "trust",
    "trust revoke .",
    "memory edit rules --file -",
    "memory set rules permission admin",
    "memory share rules persona:x",
    "memory forget human --all --yes",
    "memory rollback human 1",
    "memory delete human",
    "memory undo human",
    "memory import a.txt",
    "memory trap x --paths a",
    "auth login openai",
    "auth logout openai",
    "restore --latest",
    "journal redact ses_1 --match x --yes",
    "journal rebuild --replace",
    "sessions delete ses_1",
    "sessions rename ses_1 x",
    "sessions rewind ses_1 1",
    "gc",
    "chat --yes hello",
    "policy grants revoke 3",
)

NOT_REFUSED = (
    "tasks",
    "tasks graph 3",
    "definitions",
    "definitions verify",
    "jobs",
    "jobs verify",
    "sessions watch ses_1",
    "bundle list",
    "bundle show x",
    "trust list",
    "memory",
    "memory show human",
    "memory search words",
    "auth",
    "auth status",
    "journal verify",
    "journal export ses_1 -o x",
    "journal rebuild --into x",
    "sessions",
    "sessions search x",
    "sessions rewind ses_1 1 --preview",
    "gc --dry-run",
    "backup",
    "usage",
    "board",
    "board --watch",
    "policy grants",
    "policy explain ls",
    "models",
    "doctor --verify",
    "explain cli.usage",
    "chat hello",
    "acp",
    "--version",
    "memory forget --help",
)


@pytest.mark.parametrize("line", REFUSED)
def test_what_decides_or_erases_is_known_by_its_arguments_and_policy_asks_for_it_too(line: str):
    assert decides_for_user(parse_arguments(line.split())).split()[0] == line.split(maxsplit=1)[0]
    assert not only_reads(line.split())


@pytest.mark.parametrize("line", NOT_REFUSED)
def test_what_only_reads_or_serves_is_not_refused(line: str):
    assert decides_for_user(parse_arguments(line.split())) == ""


def test_what_policy_takes_for_reading_is_never_refused():
    needed = {"show": ["x"], "history": ["x"], "diff": ["x"], "blame": ["x"], "search": ["x"], "verify": []}
    for command, actions in READING.items():
        for action in actions:
            words = [command, action, *needed.get(action, [])]
            assert only_reads(words)
            assert decides_for_user(parse_arguments(words)) == "", words


@pytest.mark.slow
def test_inside_an_agents_command_the_program_says_so_in_a_sentence_and_changes_nothing(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    hook = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stop"}]}]}}'
    (project / ".claude" / "settings.json").write_text(hook, encoding="utf-8")
    trust = ("trust", "--yes", str(project))
    refused = run_command_line(home, *trust, PATTERN_ACP_INSIDE="1")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.startswith(
        "pattern-acp: `pattern-acp trust` is for the user and does not run in a command that an agent started; "
        "use your own terminal."
    )
    assert "cli.started-by-agent" in refused.stderr
    assert not home.exists()
    assert run_command_line(home, *trust).returncode == 0
    listed = run_command_line(home, "trust", "list", PATTERN_ACP_INSIDE="1")
    assert (listed.returncode, str(project.resolve()) in listed.stdout) == (0, True)


def test_inside_an_agents_command_json_and_slash_commands_are_refused_alike(tmp_path: Path):
    refused = run_command_line(tmp_path, "memory", "forget", "human", "--all", "--json", PATTERN_ACP_INSIDE="1")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["error"]["code"] == "cli.started-by-agent"
    for prompt in ("/memory forget human --all", "\n /memory forget human --all"):
        chatted = run_command_line(tmp_path, "chat", prompt, PATTERN_ACP_INSIDE="1")
        assert chatted.returncode == 1
        assert "`pattern-acp chat /…` is for the user" in chatted.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_a_chat_behind_env_i_takes_no_slash_command_and_nobody_can_type_in_one(tmp_path: Path):
    ours, theirs = os.openpty()
    for words, refused in ((("chat", "/trust"), "chat /…"), (("chat",), "chat")):
        # The shell has the mark, and the chat has not.
        line = shlex.join(("env", "-u", "PATTERN_ACP_INSIDE", *COMMAND, *words)) + "; exit $?"
        chatted = subprocess.run(
            ("/bin/sh", "-c", line),
            env=agent_environment(tmp_path, PATTERN_ACP_INSIDE="1"),
            stdin=theirs,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
            text=True,
        )
        assert (chatted.returncode, chatted.stdout) == (1, "")
        assert f"`pattern-acp {refused}` is for the user" in chatted.stderr
    os.close(ours)
    os.close(theirs)


def test_every_command_of_a_terminal_is_known_to_decide_or_not():
    for group in (one for one in GROUPS if one.opens):
        for command in group.commands:
            words = {one.name: "" for one in command.parameters}
            call = TypedCommand(group.name, command.name, {**words, "preview": False}, {}, Flags())
            assert isinstance(decides_for_user(call), str)
