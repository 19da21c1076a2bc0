"""The table of docs/reference/development/faults.md is true: every row names a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `([\w/]+\.py)::(\w+)` \|$")


def rows() -> list[tuple[str, str, str, str]]:
    text = (ROOT / "docs" / "reference" / "development" / "faults.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| fault | what happens | test |\n|---|---|---|\n")
    lines = [line for line in table.splitlines() if line.startswith("|")]
    found = [match.groups() for line in lines if (match := ROW.match(line)) is not None]
    assert len(found) == len(lines), "a row is not of the form that is checked"
    return [(fault, outcome, file, name) for fault, outcome, file, name in found]


def test_every_fault_has_a_test_that_exists():
    for fault, _, file, name in rows():
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, fault


def test_the_faults_are_many_and_each_is_told_once():
    faults = [fault for fault, _, _, _ in rows()]
    assert len(faults) >= 30
    assert len(set(faults)) == len(faults)
