"""The commands of the how-to guides run as they stand there: in an empty home, with the offline or a scripted model."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from pattern_acp.config.load import process_environment
from pattern_acp.config.project_offer import ProjectOffer
from pattern_acp.config.settings import Settings
from pattern_acp.context.instructions import BUILT_IN, load_persona
from pattern_acp.definitions.collection import find_definitions
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.constellation import ProjectSettings
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import says

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
"""Stands above a block that needs the outside world, or is a form, with the reason."""

SHELL = re.compile(r"([\w ]+\| )?pattern-acp\b")
EXAMPLE_SESSION = "ses_1a442a6f"


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """The kind and the text of each block that is not kept from running, in order."""
    above = ""
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type in {"fence", "code_block"} and not NOT_RUN.search(above):
            yield token.info, token.content
        above = token.content if token.type == "html_block" else ""


def typed(text: str) -> list[str]:
    """The lines of a block, without what a guide says beside them."""
    return [re.split(r"\s{2,}", line.removeprefix("> "))[0].strip() for line in text.splitlines()]


def shell_lines(text: str) -> list[str]:
    return [line for line in typed(text) if SHELL.match(line)]


def slash_lines(page: Path) -> list[str]:
    return [line for _, text in blocks(page) for line in typed(text) if line.startswith("/")]


class Terminal:
    """A shell in a repository of an empty home, where `pattern-acp` is the agent that is tested."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = self.home / "src" / "shop"
        self.project.mkdir(parents=True)
        (self.home / "Sync" / "pattern").mkdir(parents=True)
        programs = folder / "bin"
        programs.mkdir()
        program = programs / "pattern-acp"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pattern_acp "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self.environment = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join((str(programs), process_environment()["PATH"])),
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        }

    def run(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=100,
            check=False,
        )
        # Nobody answers here: a command that asks has come as far as it can.
        assert done.returncode == 0 or "[cli.not-confirmed]" in done.stderr, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def configure(self, toml: str) -> None:
        """Put an example into config.toml, in place of the one before."""
        file = self.home / ".config" / "pattern-acp" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(toml, encoding="utf-8")


@pytest.mark.needs("git")
@pytest.mark.skipif(sys.platform == "win32", reason="the guides show commands of a POSIX shell")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(shell_lines(text) for _, text in blocks(page))], ids=lambda page: page.stem
)
def test_the_shell_commands_of_a_guide_run(page: Path, tmp_path: Path):
    terminal = Terminal(tmp_path)
    terminal.run("git init -q .")
    (terminal.project / "app.py").write_text("# TODO: later\n", encoding="utf-8")
    terminal.run('pattern-acp chat "find TODO"')
    (session,) = json.loads(terminal.run("pattern-acp sessions list --json"))
    for kind, text in blocks(page):
        if kind == "toml":
            terminal.configure(text)
        for line in shell_lines(text):
            terminal.run(line.replace(EXAMPLE_SESSION, session["id"]))


def bring_groups(agent: RunningAgent, page: Path, settings: Settings) -> None:
    """Put the groups of a guide into the project, where it has some."""
    texts = [text for _, text in blocks(page) if text.startswith("# .pattern/groups.toml")]
    if not texts:
        return
    (agent.folder / ".pattern").mkdir()
    (agent.folder / ".pattern" / "groups.toml").write_text("\n".join(texts), encoding="utf-8")

    def settings_for(folder: str) -> ProjectSettings:
        found = find_definitions(folder, agent.folder / "nowhere")
        return ProjectSettings(settings, found.problems, ProjectOffer(parts=tuple(found.parts())), found)

    agent.shared.settings_for = settings_for
    agent.shared.personas = BUILT_IN
    agent.shared.persona_named = lambda name: load_persona(name, agent.folder / "nowhere")


@pytest.mark.parametrize("page", [page for page in PAGES if slash_lines(page)], ids=lambda page: page.stem)
async def test_the_slash_commands_of_a_guide_are_carried_out(page: Path):
    model, settings = ScriptedProvider([says("Done.")] * 20), Settings(mode="auto", editor_deadline_seconds=30)
    async with running_agent(model, settings=settings, permission=choose("allow_always")) as agent:
        bring_groups(agent, page, settings)
        (agent.folder / "src").mkdir()
        (agent.folder / "src" / "app.py").write_text("def load():\n    return 1\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("Make the parser stricter.", "Now do the same for the lexer."):
            await agent.editor.prompt(session, prompt)
        for line in slash_lines(page):
            agent.editor.updates.clear()
            answer = await agent.editor.prompt(session, line)
            assert "failure" not in str(answer), f"{line}\n{agent.editor.said()}"
