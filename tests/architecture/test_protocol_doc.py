"""docs/reference/development/protocol.md is true: every rule names tests that exist, or says why there is none."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([A-Z]-\d+) \| (.+) \|$")
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
NO_TEST = "no test: "


def rows() -> list[tuple[str, list[str]]]:
    """The id and the other cells of every rule."""
    found: list[tuple[str, list[str]]] = []
    for line in (ROOT / "docs" / "reference" / "development" / "protocol.md").read_text(encoding="utf-8").splitlines():
        match = ROW.match(line)
        if match is not None:
            found.append((match[1], [cell.strip() for cell in match[2].split(" | ")]))
    return found


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, functions) and node.name.startswith("test_"))


def test_there_are_rules_of_every_part():
    assert {rule[0] for rule, _ in rows()} == set("TIASPCFEXBKVU")
    assert len(rows()) >= 150


def test_ids_are_unique_and_counted_without_gaps():
    numbers: dict[str, list[int]] = {}
    for rule, _ in rows():
        numbers.setdefault(rule[0], []).append(int(rule[2:]))
    for letter, counted in numbers.items():
        assert counted == list(range(1, len(counted) + 1)), letter


def test_no_row_of_a_table_is_overlooked():
    lines = (ROOT / "docs" / "reference" / "development" / "protocol.md").read_text(encoding="utf-8").splitlines()
    tables = [line for line in lines if line.startswith("|") and not line.startswith(("| id |", "| --- |"))]
    assert len(tables) == len(rows())


@pytest.mark.parametrize(("rule", "cells"), rows(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_rule_has_its_words_its_source_and_tests_that_exist(rule: str, cells: list[str]):
    assert len(cells) == 3
    words, source, proof = cells
    assert words.endswith(".") or rule.startswith("B-")
    assert source
    if proof.startswith(NO_TEST):
        assert len(proof) > len(NO_TEST) + 20
        assert proof.endswith(".")
        return
    named = TEST.findall(proof)
    assert named
    assert ", ".join(f"`{path}::{name}`" for path, name in named) == proof
    for path, name in named:
        file = ROOT / "tests" / path
        assert file.is_file(), path
        assert name in names_in(file), f"{path}::{name}"
