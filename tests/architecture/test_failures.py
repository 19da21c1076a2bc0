"""Every error that is raised has its row in the registry of failures, and every row is raised somewhere.

Read from the syntax tree and not from running code, so that a place which no test reaches counts too.
"""

import ast
import importlib
import pkgutil
from functools import cache
from pathlib import Path

import pattern_acp
from pattern_acp.cli.explain import failures
from pattern_acp.domain.errors import PatternError

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "pattern_acp").rglob("*.py"))

CARRIERS = {"TurnFailure", "write_failure"}
"""What takes a code as its first argument."""

CODE_ARGUMENTS = {"failure_code", "failure"}
"""Arguments that are a code, where they are a text."""

NOT_SEEN = {
    "_MistakeError": "becomes a problem of a project's groups",
    "FileSkippedError": "ends the search of one file, in a process of its own",
    "HelpShown": "carries help text out of click",
    "_UnusableError": "becomes the sentence that says why a model cannot be prepared",
    "BundleError": "a finding of journal verify, which stands alone and imports nothing of ours",
    "ContentError": "becomes ContentRefusedError",
    "LeftOutError": "becomes what a catalogue says was left out",
    "UnusableSchemaError": "becomes LeftOutError",
    "LineTooLongError": "logged by whoever keeps segments",
    "PackedError": "becomes DamagedEventError",
    "SegmentDamageError": "a finding about a segment",
    "RuleError": "becomes a problem of the settings, or WrongPolicyError",
    "SchemaError": "becomes a sentence of the error that names the schema's place",
    "VocabularyError": "becomes EmbedderError",
    "EventStreamError": "becomes ProviderProtocolError",
    "SseTooLargeError": "becomes ProviderProtocolError",
    "RefusedError": "a sentence on the stderr of the sandbox's launcher, which imports nothing of ours",
    "GrammarMissingError": "the file is indexed without its grammar",
    "WalkStoppedError": "ends a walk that nobody waits for any more",
    "DevicePending": "a state of signing in",
    "OutputClosed": "nobody reads stdout any more",
    "_DoneError": "ends a trial, so that its transaction is rolled back",
    "_TriedError": "ends a trial, so that its transaction is rolled back",
    "_ForgottenSinceError": "what a turn recalled is left out",
    "RecordedFailureError": "given back to the loop by a replay, which compares its sentence",
}
"""Exceptions of ours that no person and no model sees, and what becomes of each."""


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The few kinds of nodes that matter here, of one module."""
    wanted = (ast.Call, ast.Raise, ast.Return, ast.Dict, ast.ImportFrom)
    return tuple(node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, wanted))


@cache
def exceptions() -> dict[str, list[type[BaseException]]]:
    """Every exception class that a module of ours defines, by name."""
    found: dict[str, list[type[BaseException]]] = {}
    for module in pkgutil.walk_packages(pattern_acp.__path__, "pattern_acp."):
        if module.name == "pattern_acp.__main__":
            continue
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == module.name:
                found.setdefault(name, []).append(value)
    return found


def errors() -> list[type[PatternError]]:
    return [each for classes in exceptions().values() for each in classes if issubclass(each, PatternError)]


def imported(path: Path) -> dict[str, str]:
    """Local names of what a module imports from ours: the name to `module.name`."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


class Names:
    """What the names of a module stand for."""

    def __init__(self, path: Path) -> None:
        self._imported = imported(path)
        self._own = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    def error(self, node: ast.AST) -> type[PatternError] | None:
        """The error class that an expression names."""
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        for found in exceptions().get(name, ()):
            full = f"{found.__module__}.{name}"
            is_meant = isinstance(node, ast.Attribute) or self._imported.get(name, f"{self._own}.{name}") == full
            if issubclass(found, PatternError) and is_meant:
                return found
        return None


def handed_on(node: ast.AST) -> list[ast.expr]:
    """Where a class is given to whoever makes the error."""
    match node:
        case ast.Raise(exc=ast.expr() as raised):
            return [raised]
        case ast.Return(value=ast.Tuple(elts=elements)):
            return elements
        case ast.Dict(values=values):
            return values
        case _:
            return []


@cache
def made(path: Path) -> tuple[tuple[type[PatternError], ast.Call | None], ...]:
    """The errors that a module makes: by a call, or by handing the class to whoever calls it."""
    names = Names(path)
    found: list[tuple[type[PatternError], ast.Call | None]] = []
    for node in nodes(path):
        if isinstance(node, ast.Call) and (kind := names.error(node.func)):
            found.append((kind, node))
        found += [(kind, None) for each in handed_on(node) if (kind := names.error(each))]
    return tuple(found)


def given_code(call: ast.Call | None) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == "failure_code"), None) if call else None


@cache
def literal_codes(path: Path) -> frozenset[str]:
    """Codes that a module names itself."""
    codes: set[object] = set()
    for node in nodes(path):
        if isinstance(node, ast.Call):
            takes_code = isinstance(node.func, ast.Name) and node.func.id in CARRIERS
            given = [*node.args[:takes_code], *(each.value for each in node.keywords if each.arg in CODE_ARGUMENTS)]
            codes |= {each.value for each in given if isinstance(each, ast.Constant)}
    return frozenset(code for code in codes if isinstance(code, str) and code)


def codes_of_the_protocol() -> set[str]:
    """The failures that JSON-RPC codes stand for where nothing more exact is known."""
    path = ROOT / "pattern_acp" / "jsonrpc" / "messages.py"
    tables = [node for node in nodes(path) if isinstance(node, ast.Dict)]
    by_number = [table for table in tables if all(isinstance(key, ast.Name) and key.id.isupper() for key in table.keys)]
    codes = {each.value for table in by_number for each in table.values if isinstance(each, ast.Constant)}
    return {code for code in codes if isinstance(code, str)}


def test_every_error_that_is_raised_has_a_code_of_its_class_or_its_place():
    without = {
        kind.__name__
        for path in SOURCES
        for kind, call in made(path)
        if "failure_code" not in vars(kind) and given_code(call) is None and kind.__name__ != "RpcError"
    }
    assert sorted(without) == [], "give the class a failure_code, and the code a table in cli/failures.toml"


def test_every_code_that_the_program_names_is_registered():
    known = failures()
    named = {kind.failure_code for kind in errors()} | codes_of_the_protocol()
    named |= {code for path in SOURCES for code in literal_codes(path)}
    assert sorted(named - set(known)) == []


def test_every_registered_code_is_raised_somewhere():
    raised = {kind.failure_code for path in SOURCES for kind, _ in made(path)} | codes_of_the_protocol()
    raised |= {code for path in SOURCES for code in literal_codes(path)}
    assert sorted(set(failures()) - raised) == []


def test_codes_are_for_ever():
    written = (ROOT / "tests" / "architecture" / "failure_codes.txt").read_text(encoding="utf-8").split()
    assert sorted(set(written) - set(failures())) == [], "a code that was released stands in journals and reports"
    assert written == sorted(failures()), "add the new code to failure_codes.txt"


def test_rows_are_in_order_and_say_what_to_do():
    rows = failures()
    assert list(rows) == sorted(rows)
    for row in rows.values():
        assert row.meaning.endswith(".")
        assert row.remedy.endswith(".")
        assert row.stage


def test_every_exception_of_ours_has_a_code_or_is_known_not_to_be_seen():
    unseen = {name for name, kinds in exceptions().items() for kind in kinds if not issubclass(kind, PatternError)}
    assert unseen == set(NOT_SEEN)


def test_a_code_that_is_handed_on_comes_from_an_error():
    for path in SOURCES:
        for _, call in made(path):
            code = given_code(call)
            if code is None or isinstance(code, ast.Constant):
                continue
            assert isinstance(code, ast.Attribute), f"{path.name}: {ast.unparse(code)}"
            assert code.attr == "failure_code", f"{path.name}: {ast.unparse(code)}"
