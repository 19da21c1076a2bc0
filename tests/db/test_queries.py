import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pattern_acp
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.db.queries import load_queries, parse_queries

ROOT = Path(pattern_acp.__file__).parent
PACKAGES = sorted(f"pattern_acp.{path.parent.relative_to(ROOT).as_posix()}" for path in ROOT.rglob("queries.sql"))
STATEMENTS = [(package, name) for package in PACKAGES for name in load_queries(package).names]
PLACEHOLDER = re.compile(r":([a-z_]+)")


def is_loading(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_queries"


def used_names(package: str) -> set[str]:
    """Every name by which the modules of a package subscript what `load_queries` gave them."""
    folder = ROOT.joinpath(*package.split(".")[1:])
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")]
    variables = {
        target.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_loading(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {
        str(node.slice.value)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
        if is_loading(node.value) or (isinstance(node.value, ast.Name) and node.value.id in variables)
    }


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApswConnection]:
    opened = ApswConnection(tmp_path_factory.mktemp("queries") / "c.db", read_only=False, busy_seconds=1.0)
    opened.open()
    migrate(opened, load_migrations(), now_ms=0)
    yield opened
    opened.close()


def test_the_journal_has_queries():
    assert "pattern_acp.journal" in PACKAGES


@pytest.mark.parametrize(("package", "name"), STATEMENTS, ids=[f"{package}:{name}" for package, name in STATEMENTS])
def test_every_statement_compiles_on_the_migrated_schema(driver: ApswConnection, package: str, name: str):
    sql = load_queries(package)[name]
    if "vec_" in sql and driver.vector_version is None:
        pytest.skip("sqlite-vec is not installed")
    names = PLACEHOLDER.findall(sql)
    bindings = dict.fromkeys(names) if names else (None,) * sql.count("?")
    assert driver.raw.execute(f"EXPLAIN {sql}", bindings).fetchall()


@pytest.mark.parametrize("package", PACKAGES)
def test_no_statement_is_unused_and_none_is_unknown(package: str):
    assert used_names(package) == set(load_queries(package).names)


def test_an_unknown_name_is_named():
    with pytest.raises(KeyError, match=r"pattern_acp\.journal.*no_such"):
        load_queries("pattern_acp.journal")["no_such"]


def test_a_package_without_queries_is_named():
    with pytest.raises(ValueError, match=r"pattern_acp\.domain/queries\.sql is missing"):
        load_queries("pattern_acp.domain")


def test_statements_are_split_from_their_names_and_descriptions():
    text = (
        "-- A heading.\n\n-- name: one\n-- The first\n-- of two.\nSELECT 1\n  AS a;\n\n-- name: two\n-- x\nSELECT 2;\n"
    )
    assert parse_queries(text, "x") == {"one": "SELECT 1\n  AS a", "two": "SELECT 2"}


def test_a_part_stands_in_every_statement_that_names_it():
    text = "-- part: a\n-- One.\nx > 1;\n\n-- name: b\n-- Two.\nSELECT 1 WHERE {a};\n"
    assert parse_queries(text, "x") == {"b": "SELECT 1 WHERE x > 1"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-- name: b\n-- Two.\nSELECT {a};\n-- part: a\n-- One.\n1;\n", "no part 'a' before"),
        ("-- name: a\nSELECT 1;\n", "no description"),
        ("-- name: a\n-- Nothing.\n", "no statement"),
        ("-- name: a\n-- One.\nSELECT 1;\n-- name: a\n-- Two.\nSELECT 2;\n", "twice"),
    ],
)
def test_a_file_that_breaks_the_form_is_refused(text: str, problem: str):
    with pytest.raises(ValueError, match=problem):
        parse_queries(text, "x")
