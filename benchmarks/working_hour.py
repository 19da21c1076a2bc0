"""Questions in an hour of ordinary work in mode `ask`, by the real process.

    .venv/bin/python benchmarks/working_hour.py [--verbose]

A model that follows a script works in three sessions of one project, each in a process of its own: it adds a function,
mends a fault, and tidies up before a release. A careful user answers: once where an act goes out or cannot be taken
back (a commit, an install, a deletion), for the project where a kind of command is harmless (tests, linters, staging)
or a folder is the agent's to edit. Printed are the questions for ten tool calls, and how many of them this user
would not have wanted: all but those that they answer once. Needs git, and pytest and ruff beside the interpreter.
"""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import anyio

from pattern_acp.config.load import process_environment
from tests.support.editor import JsonDict
from tests.support.process import Launch, running_process, write_script

FILES = {
    "README.md": "# tally\n\nCounts words.\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\n.ruff_cache/\nbuild/\n",
    "pyproject.toml": '[project]\nname = "tally"\nversion = "0.1.0"\n\n[tool.pytest]\npythonpath = ["src"]\n',
    "src/tally/__init__.py": "",
    "src/tally/words.py": "def count(text):\n    return len(text.split())\n",
    "src/tally/report.py": "from tally.words import count\n\n\ndef report(text):\n    return f'{count(text)} words'\n",
    "tests/test_words.py": "from tally.words import count\n\n\ndef test_count():\n    assert count('a b') == 2\n",
    "docs/usage.md": "Call `report`.\n",
}

FIRST = r"""
Add a function that counts lines.
list .
find **/*.py
read README.md
read src/tally/words.py
read src/tally/report.py
search count
run git status
run git log --oneline -5
run git branch --show-current
run ls -la src/tally
run python --version
run pytest -q
edit src/tally/words.py|text.split())|text.split())\n\n\ndef lines(text):\n    return len(text.splitlines())
read src/tally/words.py
read tests/test_words.py
edit tests/test_words.py|import count|import count, lines
edit tests/test_words.py|== 2|== 2\n\n\ndef test_lines():\n    assert lines('a') == 1
read tests/test_words.py
run pytest -q tests/test_words.py
run pytest -q
run ruff check .
run ruff format --check . | tail -3
run git diff
run git diff --stat
!
Show the lines in the report, too.
read src/tally/report.py
run grep -n report src/tally/report.py docs/usage.md
edit src/tally/report.py|import count|import count, lines
edit src/tally/report.py|words'|words, {lines(text)} lines'
run cat src/tally/report.py
find tests/*.py
write tests/test_report.py|from tally.report import report\n\n\ndef test_report():\n    assert '1 l' in report('a')\n
run pytest -q tests/test_report.py
run pytest -q | tail -5
run ruff check src tests
run git status --short
run git diff | head -60
!
Commit it.
run git add src tests
run git diff --cached --stat
run git commit -m 'Count lines'
run git log --oneline -3
run git status
"""

SECOND = r"""
`count` is wrong for hyphens: a-b are two words.
run git log --oneline -10
run git status
search split
read src/tally/words.py
read tests/test_words.py
read src/tally/report.py
run grep -n count src/tally/words.py
run git blame -L 1,5 src/tally/words.py
run git show --stat HEAD
run pytest -q -x
edit tests/test_words.py|def test_lines|def test_hyphens():\n    assert count('a-b') == 2\n\n\ndef test_lines
run pytest -q -k hyphens
edit src/tally/words.py|text.split()|re.findall('[a-z0-9]+', text.lower())
edit src/tally/words.py|def count|import re\n\n\ndef count
read src/tally/words.py
run pytest -q -k hyphens
run pytest -q
run ruff check --fix src
run ruff format src tests
run git diff src
run grep -n count src/tally/*.py | head
read src/tally/words.py
run wc -l src/tally/words.py tests/test_words.py
run sed -n 1,12p src/tally/words.py
!
Say so in the documents, and commit.
read docs/usage.md
read README.md
run ls docs
edit docs/usage.md|Call `report`.|Call `report`. Parts of a word with a hyphen count as words.
run git diff docs
run cat docs/usage.md
run git add -A
run git status --short
run git commit -m 'Count the parts of words with hyphens'
run git log -1 --stat
"""

THIRD = r"""
Get it ready for 0.2: a type checker, and no old files.
run git status
run git log --oneline | head -5
read pyproject.toml
find *.md
run cat pyproject.toml | head -20
run pip list | head -5
run pip install --dry-run --no-index mypy
run pip show pytest
edit pyproject.toml|0.1.0|0.2.0
write CHANGELOG.md|# Changes\\n\\n- 0.2.0: counts lines, and parts of words with hyphens\\n
read src/tally/report.py
edit src/tally/report.py|def report(text):|def report(text: str) -> str:
read src/tally/words.py
edit src/tally/words.py|def count(text):|def count(text: str) -> int:
edit src/tally/words.py|def lines(text):|def lines(text: str) -> int:
run git diff src
run pytest -q
run pytest -q tests/test_report.py
run ruff check .
run ruff format --check .
read src/tally/words.py
run mkdir -p build
run python -m compileall -q src
run ls build src
run rm -r build
run find . -name '*.pyc' | wc -l
run du -sh src
run git diff --stat
run git diff pyproject.toml
search TODO
list src/tally
run tail -n 5 CHANGELOG.md
run diff README.md docs/usage.md
run git stash list
run git tag --list
run pytest -q --collect-only | tail -2
run git add -A && git status --short
run git commit -m 'Get ready for 0.2'
run git tag v0.2.0
run git log --oneline -3
run git push origin main
"""

PATIENCE = 900.0
"""Seconds that a prompt may take on a busy machine."""

ONCE = ("git commit", "git push", "git tag", "pip install", "rm ")
"""Beginnings of commands that this user wants to be asked about each time."""


def call(line: str) -> JsonDict:
    """Return the call that a line of the script stands for."""
    verb, _, rest = line.partition(" ")
    texts = rest.replace("\\n", "\n").split("|")
    match verb:
        case "run":
            return {"tool": "run_command", "arguments": {"command": rest}}
        case "edit":
            path, old, new = texts
            return {"tool": "edit_file", "arguments": {"path": path, "edits": [{"old_text": old, "new_text": new}]}}
        case "write":
            return {"tool": "write_file", "arguments": {"path": texts[0], "content": texts[1]}}
        case "read":
            return {"tool": "read_file", "arguments": {"path": rest}}
        case "list":
            return {"tool": "list_directory", "arguments": {"path": rest}}
        case "find":
            return {"tool": "find_files", "arguments": {"pattern": rest}}
        case _:
            return {"tool": "search_text", "arguments": {"pattern": rest}}


class CarefulUser:
    """Answers questions, and counts them."""

    def __init__(self) -> None:
        self.wanted = Counter[str]()
        self.unwanted = Counter[str]()

    async def answer(self, params: JsonDict) -> JsonDict:
        """Answer one question by what is asked about."""
        shown, offered = params["toolCall"], {one["optionId"] for one in params["options"]}
        raw: JsonDict = shown.get("rawInput") or {}
        line = str(raw.get("command", ""))
        if line.startswith(ONCE):
            self.wanted[line] += 1
            chosen = "allow_once"
        else:
            self.unwanted[line or shown["title"]] += 1
            wishes = ("allow_always_project", "allow_always", "allow_once")
            chosen = next(wish for wish in wishes if wish in offered)
        return {"outcome": "selected", "optionId": chosen}


async def work(folder: Path, *, verbose: bool) -> None:
    """Do the hour, and print what was asked."""
    project, user = folder / "tally", CarefulUser()
    for name, text in FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(project))
    for words in (("init", "-qb", "main"), ("add", "-A"), ("commit", "-qm", "Begin")):
        await anyio.run_process((*git, *words))
    called = failed = 0
    path = f"{Path(sys.executable).parent}{os.pathsep}{process_environment()['PATH']}"
    author = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for script in (FIRST, SECOND, THIRD):
        prompts = [part.strip().splitlines() for part in script.split("\n!\n")]
        turns = [turn for lines in prompts for turn in (*([call(line)] for line in lines[1:]), [{"text": "Done."}])]
        environment = {**write_script(folder, turns), "PATH": path, "HOME": str(folder), **author}
        launch = Launch(folder / "home", environment=environment, permission=user.answer)
        async with running_process(launch) as agent:
            session = await agent.editor.open_session(str(project))
            for lines in prompts:
                await agent.editor.prompt(session, lines[0], deadline=PATIENCE)
                called += len(lines) - 1
            ends = [one for one in agent.editor.of_kind("tool_call_update") if one.get("status") == "failed"]
            failed += len(ends)
            if verbose:
                print(*(str(one)[:300] for one in ends), sep="\n")
    asked = user.wanted.total() + user.unwanted.total()
    print(f"{called} tool calls in three sessions, {failed} failed")
    print(f"questions: {asked}, {asked / called * 10:.2f} for ten calls")
    print(f"of them not wanted: {user.unwanted.total()}, {user.unwanted.total() / called * 10:.2f} for ten calls")
    for name, counted in (("wanted", user.wanted), ("not wanted", user.unwanted)):
        print(f"{name}: {', '.join(f'{line} ({count})' if count > 1 else line for line, count in counted.items())}")


def main() -> None:
    """Work in a new folder and home."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        anyio.run(lambda: work(Path(folder), verbose="--verbose" in sys.argv))


if __name__ == "__main__":
    main()
