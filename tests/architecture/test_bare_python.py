"""What a bare Python runs, which has no site-packages, imports the standard library and itself alone."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pattern_acp

ROOT = Path(pattern_acp.__file__).parent.parent

BARE = ("pattern_acp.workspace.line_worker",)
"""Modules that `workspace.search` starts with `-I -S`."""


def file_of(module: str) -> Path | None:
    """The file of a module of ours; None for anything else, such as a name in a module."""
    place = ROOT.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, wherever in it, and the names that may be modules."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if file_of(f"{node.module}.{alias.name}"))


def foreign(module: str, seen: set[str]) -> Iterator[str]:
    """What a module needs of others than the standard library, and what for."""
    parts = module.split(".")
    for name in (".".join(parts[: length + 1]) for length in range(len(parts))):
        file = file_of(name)
        if file is None or name in seen:
            continue
        seen.add(name)
        for needed in imported(file):
            top = needed.partition(".")[0]
            if top == "pattern_acp":
                yield from foreign(needed, seen)
            elif top not in sys.stdlib_module_names:
                yield f"{name} imports {needed}"


@pytest.mark.parametrize("module", BARE)
def test_a_process_of_a_bare_python_needs_no_package(module: str):
    seen = set[str]()
    assert list(foreign(module, seen)) == []
    assert len(seen) > 2


def test_a_package_is_noticed_however_deep_it_is_imported():
    assert any(found.endswith("imports msgspec") for found in foreign("pattern_acp.workspace.local_files", set()))
