"""Size limits of modules, functions and classes; an AST test, so that no comment can switch it off."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE_LINES = 400
FUNCTION_LINES = 60
CLASS_METHODS = 15

MODULES = sorted((ROOT / "pattern_acp").rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_are_modules_to_measure():
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_keeps_to_the_size_budget(path: Path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert len(text.splitlines()) <= MODULE_LINES
    for function in functions(tree):
        assert function.end_lineno is not None
        length = function.end_lineno - function.lineno + 1
        assert length <= FUNCTION_LINES, f"{function.name} has {length} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
            assert len(methods) <= CLASS_METHODS, f"{node.name} has {len(methods)} methods"
