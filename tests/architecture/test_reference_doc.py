"""docs/reference/commands-and-settings.md is what the program says, and says everything."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.commands.slash import COMMANDS
from pattern_acp.config.keys import KEYS
from pattern_acp.config.load import load, process_environment
from pattern_acp.config.settings import Flags
from pattern_acp.tools.registry import default_tools

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"(?:PATTERN_ACP|ANTHROPIC|OPENAI|OLLAMA)_[A-Z_]+")


def reference() -> str:
    return (ROOT / "docs" / "reference" / "commands-and-settings.md").read_text(encoding="utf-8")


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def literals(folder: Path) -> set[str]:
    """Every text that stands in the code of a folder."""
    nodes = (node for file in folder.glob("*.py") for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_the_reference_is_what_the_program_says():
    environment = {**process_environment(), "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "reference"), "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr


def test_it_names_every_key_slash_command_and_tool():
    page = reference()
    for name in [*(key.name for key in KEYS), *(tool.spec.name for tool in default_tools())]:
        assert f"| `{name}` |" in page, name
    for name in COMMANDS:
        assert f"| `/{name}" in page, name


@pytest.mark.parametrize("table", ["providers", "mcp_servers"])
def test_it_names_every_key_of_a_table_that_people_name(tmp_path: Path, table: str):
    file = tmp_path / "config.toml"
    file.write_text(f"[{table}.mine]\nunheard_of = 1\n", encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)}, project_dir=None)
    sentence = next(str(problem) for problem in loaded.problems if problem.key.endswith(".unheard_of"))
    allowed = re.search(r"allowed are ([\w, ]+)\.", sentence)
    assert allowed is not None
    section = reference().partition(f"### [{table}.NAME]")[2].partition("\n##")[0]
    for name in allowed[1].split(", "):
        assert f"| `{name}` |" in section, name


def test_it_names_every_variable():
    variables = {text for text in literals(ROOT / "pattern_acp" / "config") if VARIABLE.fullmatch(text)}
    assert len(variables) >= 9
    for name in variables:
        assert f"| `{name}` |" in reference(), name


def test_the_readme_names_every_command_and_slash_command():
    page = readme()
    commands = re.findall(r"^\| `pattern-acp (\w+)` \|", reference(), re.MULTILINE)
    assert len(commands) >= 4
    for name in commands:
        assert f"`pattern-acp {name}" in page, name
    for name in COMMANDS:
        assert f"`/{name}" in page, name


def test_documents_lead_to_files_that_exist():
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("editor-configs/**/*.md"),
    ]
    assert len(pages) > 15
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:", "#")):
                assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"


def test_the_picture_fetches_nothing():
    picture = (ROOT / "docs" / "images" / "chat.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\s\"'<>)]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in picture
    assert "I&#160;wrote&#160;it&#160;down" in picture
