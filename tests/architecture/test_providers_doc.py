"""The table of faults in the page on providers is true: every row names a test that exists, and issue 6 is covered."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD = (
    "| fault | attempts | what the user sees | what is stored of the answer | test |\n| --- | --- | --- | --- | --- |\n"
)


def rows() -> list[tuple[str, str, str]]:
    """The fault, file and test of each row."""
    _, found, table = (ROOT / "docs" / "reference" / "providers.md").read_text(encoding="utf-8").partition(HEAD)
    assert found
    read: list[tuple[str, str, str]] = []
    for line in table.split("\n\n")[0].splitlines():
        fault, attempts, sees, kept, test = (cell.strip() for cell in line.strip("|").split("|"))
        assert attempts
        assert sees
        assert kept
        file, _, name = test.strip("`").partition("::")
        read.append((fault, file, name))
    return read


def test_every_fault_has_a_test_that_exists():
    for fault, file, name in rows():
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, fault


@pytest.mark.parametrize(
    "fault",
    [
        "slow first byte",
        "one byte at a time",
        "cut at any of its bytes",
        "429",
        "Retry-After",
        "500",
        "529",
        "web page",
        "JSON instead of a stream",
        "UTF-8",
        "8 MB",
        "one id",
        "never closed",
        "without words",
        "redirect",
        "certificate",
        "no such host",
    ],
)
def test_every_fault_that_the_fault_server_has_to_play_is_told(fault: str):
    assert any(fault in told for told, _, _ in rows())
