"""What README.md and docs/ tell a person to type, copy and follow."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from pattern_acp.cli.arguments import BadUsage
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.config.load import load
from pattern_acp.config.settings import Flags
from pattern_acp.definitions.bundles import BUNDLE_FILE, read_bundle
from pattern_acp.definitions.groups import GROUPS_FILE, groups_in

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("editor-configs/**/*.md")),
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NOT_THERE = ("there is no command", "unrecognized arguments", "invalid choice", "belongs to", "expected ")
"""What is said of a command line that no placeholder or word left out can explain."""


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.relative_to(ROOT)}:{read(page)[: found.start()].count(chr(10)) + 1}", found[2])
        for page in PAGES
        for found in FENCE.finditer(read(page))
        if found[1] == language
    ]


def command_lines(page: Path) -> list[str]:
    inline = re.findall(r"`(pattern-acp(?:\s[^`]*)?)`", FENCE.sub("", read(page)))
    fenced = [line for found in FENCE.finditer(read(page)) for line in found[2].splitlines()]
    return [" ".join(line.split()) for line in (*inline, *(line for line in fenced if line.startswith("pattern-acp ")))]


def spelled_out(line: str) -> list[str]:
    """`a [--b] | c` as the command lines that it stands for: one a choice, with what may be left out.

    A choice in brackets is left out.
    """
    without_choices = re.sub(r"\[[^\]]* \| [^\]]*\]", "", line)
    head, *others = re.sub(r"\[([^\]|]*)\]", r"\1", without_choices).split(" | ")
    verb_of = " ".join(head.split()[:2])
    return [head, *(f"{verb_of} {other}" for other in others)]


BUNDLE = f"# {BUNDLE_FILE}\n"
OF_BUNDLES = [block for block in blocks("toml") if block[1].startswith(BUNDLE)]
GROUPS = f"# {'/'.join(GROUPS_FILE)}\n"
OF_GROUPS = [block for block in blocks("toml") if block[1].startswith(GROUPS)]
OF_CONFIG = [block for block in blocks("toml") if block not in (*OF_BUNDLES, *OF_GROUPS)]


def test_an_example_of_a_bundle_is_taken(tmp_path: Path):
    ((_, text),) = OF_BUNDLES
    (tmp_path / BUNDLE_FILE).write_text(text, encoding="utf-8")
    assert read_bundle(tmp_path).name == "team"


def test_an_example_of_groups_is_taken_without_a_remark():
    ((where, text),) = OF_GROUPS
    assert groups_in(where, text).problems == ()


@pytest.mark.parametrize(("where", "text"), OF_CONFIG, ids=lambda value: value if "\n" not in value else "")
def test_an_example_of_config_toml_is_taken_without_a_remark(tmp_path: Path, where: str, text: str):
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)}, project_dir=None)
    assert [str(problem) for problem in loaded.problems] == [], where


def test_examples_in_json_are_json():
    assert [json.loads(text) for _, text in blocks("json")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_command_lines_of_a_page_are_ones_that_there_are(page: Path):
    wrong: list[str] = []
    for line in command_lines(page):
        if "…" in line or "COMMAND" in line or re.search(r"\w\|\w|\]\]|--\w+\|", line):
            continue  # a form, not something to type
        for words in spelled_out(line):
            parsed = parse_arguments(shlex.split(words)[1:])
            if isinstance(parsed, BadUsage) and any(part in parsed.sentence for part in NOT_THERE):
                wrong.append(parsed.sentence)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page: Path):
    broken: list[str] = []
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        name, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = page.parent / name if name else page
        if not file.exists() or (
            anchor and anchor not in map(slug, re.findall(r"^#+ (.*)$", read(file), re.MULTILINE))
        ):
            broken.append(target)
    assert broken == []


def slug(heading: str) -> str:
    """The anchor that a heading has where Markdown is shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_what_the_readme_says_of_an_extra_names_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = read(ROOT / "README.md")
    for extra in project["optional-dependencies"]:
        assert f"[{extra}]" in readme, extra
    # A claim and the extra that it needs, which the first command of the page does not install.
    needs = {"a stronger model": "[semantic]", "models at [Google]": "[vertex]", "AWS credentials": "[bedrock]"}
    for claim, extra in needs.items():
        for found in re.finditer(re.escape(claim), readme):
            assert extra in readme[max(0, found.start() - 60) : found.end() + 120], (claim, extra)


def test_what_the_readme_quotes_from_the_program_is_what_it_says():
    """Of the table of symptoms; an ellipsis stands for the beginning."""
    symptoms = read(ROOT / "README.md").partition("## Troubleshooting")[2].partition("##")[0]
    sources = "\n".join(read(path) for path in ROOT.glob("pattern_acp/**/*.py"))
    quoted = [quote.strip("… ") for quote in re.findall("“([^”]+)”", symptoms.partition("\n\nLogs of")[0])]
    assert len(quoted) >= 4
    assert [quote for quote in quoted if quote not in sources] == []
