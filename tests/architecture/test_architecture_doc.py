"""The page of the architecture is true where a machine can tell: layers, packages, and the tests of the invariants."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def page() -> str:
    return (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")


def invariants() -> list[tuple[str, str, str]]:
    """Number, words and tests of each."""
    table = page().partition("\n## Invariants\n")[2]
    return [(number, words, proof) for number, words, proof in ROW.findall(table)]


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def test_there_are_eleven_invariants():
    assert [number for number, _, _ in invariants()] == [str(number) for number in range(1, 12)]


@pytest.mark.parametrize(("number", "words", "proof"), invariants(), ids=lambda value: str(value)[:2])
def test_an_invariant_names_tests_that_exist(number: str, words: str, proof: str):
    assert words.endswith("."), number
    named = TEST.findall(proof)
    assert ", ".join(f"`{path}::{name}`" for path, name in named) == proof
    assert named
    for path, name in named:
        file = ROOT / "tests" / path
        assert file.is_file(), path
        assert name in names_in(file), f"{path}::{name}"


def test_the_layers_are_those_that_the_linter_keeps():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (kept,) = [one["layers"] for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    drawn = page().partition("## Layers")[2].partition("```\n")[2].partition("```")[0]
    lines = [re.split(r"\s{2,}", line)[0] for line in drawn.splitlines() if not line.startswith(" ")]
    assert lines == kept


def test_every_package_is_described():
    described = page().partition("## Where things are")[2].partition("\n## ")[0]
    for folder in (ROOT / "pattern_acp").iterdir():
        is_small = folder.name in {"config", "db", "domain", "bootstrap"}
        if (folder / "__init__.py").exists() and not is_small:
            assert f"`{folder.name}`" in described, folder.name


def test_the_modules_that_are_named_exist():
    described = page().partition("## Where things are")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (`.+?) \| (.+) \|$", described, re.MULTILINE):
        packages = re.findall(r"`(\w+)`", row[0])
        for name in re.findall(r"`(\w+/?\*?)`", row[1]):
            places = [ROOT / "pattern_acp" / package for package in packages]
            pattern = name.rstrip("/") if name.endswith("/") else f"{name}.py"
            assert any(list(place.glob(pattern)) for place in places), name
