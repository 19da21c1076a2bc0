"""Lines that start our own program: whoever runs it is taken for the user."""

import pytest

from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.decide import Decision, Mode, Verdict, decide, exact_pattern
from pattern_acp.policy.grants import Effect, Grant, GrantKind

ROOT = "/work/project"

WAYS = (
    "pattern-acp {}",
    "Pattern-ACP.exe {}",
    "'pattern'-acp {}",
    "pattern\\-acp {}",
    "./.venv/bin/pattern-acp {}",
    "/work/project/.venv/bin/pattern-acp {}",
    ".venv/bin/patt* {}",
    ".venv/bin/pattern-{{acp,x}} {}",
    "pattern-acp --constellation list --mode auto {}",
    "python -m pattern_acp {}",
    "python3.11 -P -m pattern_acp {}",
    "python -Pm pattern_acp {}",
    "python -mpattern_acp {}",
    "python -X dev -m pattern_acp.__main__ {}",
    "py -3 -m pattern_acp {}",
    "python -m pdb -m pattern_acp {}",
    "coverage run -m pattern_acp {}",
    "python .venv/bin/pattern-acp {}",
    "python pattern_acp {}",
    "python -I ./pattern_acp/__main__.py {}",
    "uvx pattern-acp {}",
    "uvx pattern-acp@latest {}",
    "uvx --from 'pattern-acp==0.1' pattern-acp {}",
    "uv run pattern-acp {}",
    "uv run --with x python -m pattern_acp {}",
    "uv tool run pattern-acp {}",
    "pipx run pattern-acp {}",
    "python -m pipx run pattern-acp {}",
    "hatch run pattern-acp {}",
    "poetry run pattern-acp {}",
    "npm exec -- pattern-acp {}",
    "env -i PATH=/usr/bin pattern-acp {}",
    "env -u PATTERN_ACP_INSIDE pattern-acp {}",
    "env -S 'pattern-acp {}'",
    "sh -c 'pattern-acp {}'",
    'bash -lc "cd /work/project && pattern-acp {}"',
    "sudo -u me pattern-acp {}",
    "nohup pattern-acp {} &",
    "timeout 5 pattern-acp {}",
    "time pattern-acp {}",
    "flock x -c 'pattern-acp {}'",
    "tmux new -d 'pattern-acp {}'",
    "tmux new -d pattern-acp {}",
    "watchexec 'pattern-acp {}'",
    "find . -exec pattern-acp {} \\;",
    "(pattern-acp {})",
    "if true; then pattern-acp {}; fi",
    "ls && pattern-acp {} | cat",
    "echo $(pattern-acp {})",
    "x=1 pattern-acp {}",
    "eval 'pattern-acp {}'",
    "exec pattern-acp {}",
    "command pattern-acp {}",
    "git -c alias.x='!pattern-acp {}' x",
    "git rebase --exec 'pattern-acp {}' HEAD~1",
    "git bisect run pattern-acp {}",
    "GIT_EDITOR='pattern-acp {}' git commit",
)

DECIDING = (
    "trust --yes .",
    "trust",
    "trust revoke .",
    "memory edit rules --file -",
    "memory set rules permission admin",
    "memory share rules persona:x",
    "memory unshare rules persona:x",
    "memory forget human --all --yes",
    "memory --reason list forget human --all --yes",
    "memory rollback human 1",
    "memory delete human",
    "memory undo human",
    "memory redo human",
    "memory restore human",
    "memory import a.txt",
    "memory create x",
    "memory trap x --paths a",
    "memory resolve 1",
    "auth login openai",
    "auth logout openai",
    "restore --latest",
    "backup -o x",
    "journal redact ses_1 --match x --yes",
    "journal rebuild --replace",
    "journal export ses_1 -o x",
    "sessions delete ses_1",
    "sessions rename ses_1 x",
    "sessions rewind ses_1 1 --yes",
    "gc",
    "gc --json",
    "chat --yes hello",
    "chat /trust",
    "acp",
    "doctor --repair",
    "memory $X",
    "memory list $X",
    "{forget,list}",
    "no-such-command",
    "memory no-such-verb",
)

READING = (
    "memory list",
    "memory show human",
    "memory --json list",
    "--persona me memory search words",
    "memory forget --help",
    "sessions list --all",
    "sessions search x",
    "journal verify",
    "journal tail ses_1 --no-follow",
    "trust list --json",
    "auth status",
    "usage --by model",
    "models",
    "explain cli.usage",
    "doctor --verify",
    "gc --dry-run",
    "backup --list",
    "--version",
    "--help",
)


def decision(line: str, mode: Mode = Mode.AUTO, *grants: Grant) -> Decision:
    return decide([RunCommand(line, ROOT)], mode=mode, roots=[ROOT], grants=grants)


def allowing(line: str) -> tuple[Grant, ...]:
    prefixes = ('["pattern-acp"]', '["pattern-acp", "memory"]', '["pattern-acp", "memory", "list"]', '["python", "-m"]')
    exact = Grant(Effect.ALLOW, GrantKind.EXACT_COMMAND, exact_pattern(RunCommand(line, ROOT)))
    return (exact, *(Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, pattern) for pattern in prefixes))


def always_asks(line: str) -> None:
    for mode in (Mode.ASK, Mode.EDIT, Mode.AUTO):
        for grants in ((), allowing(line)):
            found = decision(line, mode, *grants)
            assert (found.verdict, found.rule, found.scopes) == (Verdict.ASK, "own_program", ()), (line, mode)
    assert decision(line, Mode.PLAN, *allowing(line)).verdict is Verdict.DENY


@pytest.mark.parametrize("way", WAYS)
def test_whatever_way_our_program_is_started_a_deciding_command_asks_in_every_mode_and_each_time(way: str):
    always_asks(way.format("memory forget human --all --yes"))
    always_asks(way.format("trust --yes ."))


@pytest.mark.parametrize("words", DECIDING)
def test_every_command_that_does_not_only_read_asks_in_every_mode_and_each_time(words: str):
    always_asks(f"pattern-acp {words}")
    always_asks(f"python -m pattern_acp {words}")


@pytest.mark.parametrize(
    "line",
    [
        "pattern-acp",
        "pattern-acp < requests.jsonl",
        "echo /trust | pattern-acp chat",
        "echo trust | xargs pattern-acp",
        "echo forget | xargs -I list pattern-acp memory list human --all --yes",
        "echo pattern-acp trust --yes . | xargs env",
        "echo pattern-acp | xargs -I{} {} trust",
        "echo pattern-acp trust --yes . | sh",
        "bash <<< 'pattern-acp trust --yes .'",
        "source <(echo pattern-acp trust --yes .)",
        "at now <<< 'pattern-acp trust --yes .'",
        "Start-Process pattern-acp -ArgumentList trust",
        "sh <<E\npattern-acp trust --yes .\nE",
        "p=pattern-acp; $p trust --yes .",
        "$(which pattern-acp) trust --yes .",
        'f() { pattern-acp "$@"; }; f trust',
        "pattern-acp trust --yes . '",
        "python -c \"import pattern_acp.cli.main as m; m.run(['trust'])\"",
        "python -m pattern_acp.cli.main trust",
        "python - <<E\nfrom pattern_acp.session.trust import decide_trust\nE",
        "echo 'import pattern_acp' | python",
        "node -e \"require('child_process').execSync('pattern-acp trust')\"",
        "perl -e 'system \"pattern-acp trust\"'",
        "awk 'BEGIN { system(\"pattern-acp trust\") }'",
        "vim -c '!pattern-acp trust' a",
        "export PATTERN_ACP_INSIDE=; ./build.sh",
        "unset PATTERN_ACP_INSIDE && sh build.sh",
        "env PATTERN_ACP_INSIDE= sh build.sh",
        "env -u PATTERN_ACP_{INSIDE,X} sh build.sh",
        "unset PATTERN_ACP_{INSIDE,X}; sh build.sh",
        "python $(which pattern-acp) trust --yes .",
        'env -i python3 "$(command -v pattern-acp)" trust --yes .',
        "ln -s `which pattern-acp` q; ./q trust --yes .",
        "cp $(type -P pattern-acp) q && ./q trust --yes .",
        "cp .venv/bin/pattern-acp q && env -i ./q trust --yes .",
        "ln -sf .venv/bin/pattern-acp q; ./q trust --yes .",
        "alias p='env -i pattern-acp'\np trust --yes .",
        "python -m runpy pattern_acp trust --yes .",
        "make -f - <<< 'a:; pattern-acp trust --yes .'",
        "printf 'a:\\n\\tpattern-acp trust\\n' | make --file=-",
        "sed '1e pattern-acp trust --yes .' a",
        "sed -n '/x/e pattern-acp trust' a",
    ],
)
def test_a_line_that_may_decide_by_our_program_asks_each_time(line: str):
    always_asks(line)


@pytest.mark.parametrize("words", READING)
def test_a_command_that_only_reads_follows_the_mode_and_an_always_reaches_only_its_own_line(words: str):
    for start in ("pattern-acp", "python -m pattern_acp", "uv run pattern-acp", ".venv/bin/pattern-acp"):
        line = f"{start} {words}"
        assert decision(line).verdict is Verdict.ALLOW, line
        asked = decision(line, Mode.ASK)
        assert asked.rule == "command"
        assert [scope.kind for scope in asked.scopes] == [GrantKind.EXACT_COMMAND], line


@pytest.mark.parametrize(
    "line",
    [
        "grep -rn 'pattern-acp trust' docs",
        "grep -rn PATTERN_ACP_INSIDE pattern_acp",
        "git commit -m 'Let pattern-acp trust ask!'",
        "git log --oneline pattern_acp",
        "git diff -- pattern_acp/cli",
        "python -m pytest -q tests --cov=pattern_acp",
        "python -m mypy pattern_acp",
        ".venv/bin/ruff check pattern_acp",
        "find pattern_acp -name '*.py'",
        "ls pattern_acp | xargs wc -l",
        "git ls-files pattern_acp | grep x | awk '{print $1}'",
        "cd pattern_acp && ls",
        "pip install -e . && cat pattern_acp/__init__.py",
        "sed -n 1,5p docs/pattern-acp.md",
        "for f in pattern_acp/*.py; do wc -l $f; done",
        "which pattern-acp",
        "echo pattern-acp is here",
        "sed -i 's/pattern-acp trust/pattern-acp memory/' README.md",
        "make pattern-acp",
        "cp -r pattern-acp backup",
        "python -m pytest pattern_acp tests",
    ],
)
def test_a_line_that_only_names_our_program_runs_in_auto(line: str):
    assert decision(line).verdict is Verdict.ALLOW


def test_a_link_to_our_program_is_our_program():
    def resolve(path: str, folder: str) -> str:
        return f"{folder}/.venv/bin/pattern-acp" if path == "./x" else f"{folder}/{path}"

    found = decide([RunCommand("./x trust --yes .", ROOT)], mode=Mode.AUTO, roots=[ROOT], resolve=resolve)
    assert found.rule == "own_program"
