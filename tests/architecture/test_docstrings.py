"""Words of docstrings, texts and names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "pattern_acp"

PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))

CLAUSES = frozenset({"What", "Which", "Whether", "How", "That", "Of", "When", "Where", "If"})
"""First words of a clause. A docstring begins with the noun that it describes, or with the verb of what is done."""

_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)

Node = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _texts(node: Node, name: str) -> Iterator[tuple[str, str]]:
    """Names with their docstrings, those below attributes included."""
    text = ast.get_docstring(node)
    if text:
        yield name, text
    for before, after in zip(node.body, node.body[1:], strict=False):
        if not isinstance(before, ast.Assign | ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            yield f"{name}:{before.lineno}", after.value.value
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _texts(child, f"{name}.{child.name}")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_docstring_begins_with_a_noun_or_a_verb(package: str) -> None:
    clauses = [
        f"{name}: {text.splitlines()[0]}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for name, text in _texts(ast.parse(file.read_text("utf-8")), str(file.relative_to(ROOT)))
        if re.split(r"\W", text.strip(), maxsplit=1)[0] in CLAUSES
    ]
    assert clauses == []


@pytest.mark.parametrize("package", PACKAGES)
def test_who_uses_the_program_is_called_the_user(package: str) -> None:
    files = [file for file in (ROOT / package).rglob("*") if file.suffix in {".py", ".pyi", ".sql", ".toml", ".md"}]
    assert [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted(files)
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if re.search(r"the[ _]person\b", line, re.IGNORECASE) and "earlier releases" not in line
    ] == []


def test_a_class_has_its_name_alone() -> None:
    """Classes of the wire are named by the protocol, and the launcher of confined commands imports none of ours."""
    where: dict[str, list[str]] = {}
    for file in sorted(ROOT.rglob("*.py")):
        name = str(file.relative_to(ROOT).as_posix())
        if re.match(r"acp/(v2/)?schema|processes/confine_launcher", name):
            continue
        # Not by the syntax tree: parsing all modules takes half a minute of a busy machine.
        for found in _CLASS.finditer(file.read_text("utf-8")):
            where.setdefault(found[1], []).append(name)
    assert {name: files for name, files in where.items() if len(files) > 1} == {}
