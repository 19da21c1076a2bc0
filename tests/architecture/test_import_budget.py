"""What a start imports.

An import that comes early by accident costs every editor at every spawn (docs/reference/development/benchmarks.md).
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pattern_acp
from pattern_acp.config.load import process_environment
from pattern_acp.tools.registry import BUILT_IN

PACKAGE = Path(pattern_acp.__file__).parent

LATE_FOR_INITIALIZE = {
    "PIL", "acp", "aiosqlite", "apsw", "argparse", "click", "hashlib", "httpx", "loro", "platformdirs", "pydantic",
    "pypdf", "rich", "secrets", "sqlite3", "tempfile", "tomllib", "tree_sitter",
}  # fmt: skip
"""Nothing on the ordinary way to the answer to initialize may import these."""

BEFORE_THE_FIRST_ANSWER = {
    "pattern_acp", "pattern_acp.acp", "pattern_acp.acp.initialize_response", "pattern_acp.cli",
    "pattern_acp.cli.serving", "pattern_acp.jsonrpc", "pattern_acp.jsonrpc.stdio",
}  # fmt: skip
"""All of our own that a process imports before it answers initialize."""

LATE_FOR_THE_FIRST_ANSWER = {"anyio", "asyncio", "dataclasses", "inspect", "logging", "msgspec", "pathlib", "threading"}
"""What the standard library and others must not bring before it."""

LATE_FOR_SESSIONS = {
    "PIL", "acp", "anyio.to_process", "argparse", "click", "difflib", "email", "httpx", "httpx2", "importlib.metadata",
    "loro", "mcp", "mcp_types", "platformdirs", "pydantic", "rich", "tomllib", "tree_sitter", "zipfile",
}  # fmt: skip
"""Nothing on the way to the answer to session/new may import these."""

MOST_MODULES = 235
"""Of our own, on the way to session/new; each costs about 0.35 ms. What is more needs a reason, or goes elsewhere."""

MOST_FOR_OPENING = 15
"""Of our own, between the answer to initialize and the opening of the constellation, which runs beside the others."""

OF_TASKS = "pattern_acp.session.task_commands"
"""Needed by calls of sessions with tasks alone."""

STANDARD = re.compile(r"^from dataclasses import .*\bdataclass\b", re.MULTILINE)


def modules_after(statement: str) -> set[str]:
    command = f"{statement}\nimport sys\nprint(*sys.modules)"
    # Coverage of child processes would import half of the list itself.
    environment = {name: value for name, value in process_environment().items() if not name.startswith("COV")}
    ran = subprocess.run(
        (sys.executable, "-c", command), capture_output=True, check=True, env=environment, text=True, timeout=50
    )
    return set(ran.stdout.split())


def imported_in_functions(file: str) -> set[str]:
    """The modules of ours that functions of a file import."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    imports = (node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom))
    return {node.module for node in imports if node.module is not None and node.module.startswith("pattern_acp")}


def test_initialize_is_answered_before_anything_else_is_imported():
    loaded = modules_after("import pattern_acp.__main__, pattern_acp.cli.serving")
    assert {name for name in loaded if name.startswith("pattern_acp")} == BEFORE_THE_FIRST_ANSWER | {
        "pattern_acp.__main__"
    }
    assert loaded & LATE_FOR_THE_FIRST_ANSWER == set()


def test_a_first_line_that_comes_late_or_is_unusual_does_not_wait_for_anything_heavy():
    loaded = modules_after("import pattern_acp.cli.serving, pattern_acp.config.logs, pattern_acp.bootstrap.serve")
    assert loaded & LATE_FOR_INITIALIZE == set()


def test_the_constellation_is_opened_before_anything_that_uses_it_is_imported():
    before = modules_after("import pattern_acp.bootstrap.serve")
    added = modules_after("import pattern_acp.bootstrap.serve, pattern_acp.bootstrap.opening") - before
    ours = {name for name in added if name.startswith("pattern_acp")}
    packages = {".".join(name.split(".")[:2]) for name in ours}
    assert packages <= {"pattern_acp.bootstrap", "pattern_acp.db", "pattern_acp.domain"}
    assert len(ours) <= MOST_FOR_OPENING


def test_the_way_to_the_first_session_imports_nothing_that_it_does_not_need():
    assert modules_after("import pattern_acp.bootstrap.sessions") & LATE_FOR_SESSIONS == set()


def test_what_the_first_call_needs_is_imported_before_it_comes():
    start = "from pattern_acp.bootstrap.sessions import import_what_calls_need as ready; ready()"
    decided = "import pattern_acp.turn.permissions, pattern_acp.policy.decide, pattern_acp.policy.external_effects"
    made = "from pattern_acp.tools.registry import BUILT_IN, made; [made(name) for name in BUILT_IN]"
    late = {name for file in ("session/turn_tools.py", "turn/permissions.py") for name in imported_in_functions(file)}
    run = "; ".join(f"import {name}" for name in sorted(late - {OF_TASKS}))
    assert "import pattern_acp.turn.tool_runner" in run
    assert modules_after(f"{start}; {decided}; {made}; {run}") - modules_after(start) == set()


def test_the_way_to_the_first_session_imports_no_more_modules_than_it_did():
    loaded = modules_after(
        "import pattern_acp.cli.serving, pattern_acp.bootstrap.serve, pattern_acp.bootstrap.sessions"
    )
    ours = [name for name in loaded if name.partition(".")[0] == "pattern_acp"]
    assert len(ours) <= MOST_MODULES, "import what a first turn does not need where it is used (benchmarks.md)"


def test_nothing_of_version_2_is_imported_for_a_client_of_version_1():
    loaded = modules_after(
        "import pattern_acp.cli.serving, pattern_acp.bootstrap.serve, pattern_acp.bootstrap.sessions"
    )
    assert [name for name in sorted(loaded) if name.startswith(("pattern_acp.acp.v2", "pattern_acp.acp.second"))] == []


def test_a_request_through_a_proxy_imports_no_command_line_of_httpx():
    loaded = modules_after("import pattern_acp.providers.http_proxies")
    assert "httpx" in loaded
    assert loaded & {"click", "pygments", "rich", "httpx._main"} == set()


def test_the_memory_that_a_home_begins_with_is_made_without_loro():
    made = (
        "from pattern_acp.memory.blocks import default_blocks; from pattern_acp.memory.store import propose_creation; "
        "[propose_creation(spec, 'block_1', peer=7) for spec in default_blocks('default', '/project')]"
    )
    assert "loro" not in modules_after(made)


def test_the_way_to_the_first_session_does_without_the_code_map():
    loaded = modules_after("import pattern_acp.bootstrap.sessions")
    assert [name for name in sorted(loaded) if name.startswith("pattern_acp.codemap")] == []


def test_the_way_to_the_first_session_compiles_no_patterns_that_only_a_command_or_a_write_needs():
    loaded = modules_after("import pattern_acp.bootstrap.sessions")
    assert loaded & {"pattern_acp.policy.external_effects", "pattern_acp.memory.secrets"} == set()


def test_the_way_to_the_first_session_does_without_tools_and_what_decides_on_their_calls():
    loaded = modules_after("import pattern_acp.bootstrap.sessions")
    tools = {module.partition(":")[0] for module in BUILT_IN.values()}
    deciding = {f"pattern_acp.policy.{name}" for name in ("commands", "decide", "grant_matching", "nested_lines")}
    running = {"pattern_acp.turn.checks", "pattern_acp.turn.tool_runner"}
    assert loaded & (tools | deciding | running) == set()


def test_values_that_a_start_defines_compile_no_methods():
    # What checks a bundle stands alone, and no start imports it.
    alone = PACKAGE / "journal" / "verify_bundle.py"
    late = {PACKAGE / "cli" / "chat", alone}
    defined_early = {path for path in PACKAGE.rglob("*.py") if not late & {path, *path.parents}}
    eager = [path.name for path in defined_early if STANDARD.search(path.read_text(encoding="utf-8"))]
    assert eager == [], "make it a msgspec.Struct (docs/adr/0027-one-value-type.md)"
