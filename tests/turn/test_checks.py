"""Checks after edits: which run, in which order, and what the model reads of them."""

from pathlib import Path
from typing import Literal

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import CheckSettings
from pattern_acp.domain.clock import RandomIds, TurnId
from pattern_acp.domain.paths import POSIX, WINDOWS
from pattern_acp.domain.tool_calls import ToolCallStatus
from pattern_acp.journal.events import PermissionDecided, ToolCallFinished, ToolCallStarted
from pattern_acp.policy.decide import Mode
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.tools.read_file import ReadFileTool
from pattern_acp.turn.checks import ConfiguredChecks, runs_for
from pattern_acp.turn.permissions import PermissionChecker, PolicyState
from pattern_acp.workspace.errors import CommandFailedToStartError
from pattern_acp.workspace.local_terminal import LocalTerminal
from pattern_acp.workspace.terminal import CommandRequest, ExitStatus
from tests.support.approver import ScriptedApprover
from tests.support.constellation import FakeClock
from tests.support.passing_time import passing
from tests.support.terminal import FakeTerminal, PlayedCommand
from tests.support.tools import ToolBench, tool_bench
from tests.support.turn_recorder import FakeRecorder
from tests.support.turns import of_type

TURN = TurnId("turn_1")
KINDS: tuple[Literal["test", "linter", "formatter"], ...] = ("test", "linter", "formatter")


def lines(*checks: CheckSettings, changed: tuple[str, ...], cwd: str = "/p") -> list[str]:
    return [run.line for run in runs_for(checks, changed, cwd, flavour=POSIX)]


def test_a_check_runs_for_the_files_of_its_patterns():
    python = CheckSettings("a", "lint {files}", ("*.py", "src/**/*.pyi"))
    assert lines(python, changed=("/p/b/x y.py", "/p/src/z.pyi", "/p/z.pyi", "/p/c.js")) == [
        "lint 'b/x y.py' src/z.pyi"
    ]
    assert lines(python, changed=("/p/c.js",)) == []
    assert lines(CheckSettings("all", "make"), changed=("/p/c.js", "/other/d")) == ["make"]
    assert lines(CheckSettings("bad", "make", ("**/" * 9 + "x",)), changed=("/p/c.js",)) == []


def test_a_file_name_is_never_more_than_a_name():
    check = CheckSettings("a", "lint {files}")
    assert lines(check, changed=("/p/-rf", "/p/$(x).py", "/p/-rf")) == ["lint ./-rf '$(x).py'"]
    (run,) = runs_for([check], [r"C:\p\a&b.py"], r"C:\p", flavour=WINDOWS)
    assert run.line == 'lint "a&b.py"'


class Bench:
    def __init__(self, root: Path, *checks: CheckSettings, terminal: FakeTerminal | LocalTerminal) -> None:
        self.state = PolicyState(Mode.ASK, (str(root),))
        self.recorder = FakeRecorder()
        clock = FakeClock()
        permissions = PermissionChecker(self.state, ScriptedApprover([], clock), self.recorder, clock=clock)
        self.tools: ToolBench = tool_bench(root)
        self.tools = replace(self.tools, context=replace(self.tools.context, terminal=terminal))
        self.checks = ConfiguredChecks(
            checks, self.tools.context, permissions, self.recorder, clock=clock, ids=RandomIds()
        )

    async def after(self, *paths: Path) -> str:
        with anyio.fail_after(30):
            return await self.checks.after_edits(TURN, [str(path) for path in paths])

    @property
    def finished(self) -> list[ToolCallFinished]:
        return of_type(self.recorder.events, ToolCallFinished)


def playing(output: str, exit_code: int = 0) -> FakeTerminal:
    return FakeTerminal(lambda _: PlayedCommand((output,), ExitStatus(exit_code)))


async def test_what_a_check_finds_is_told_and_shown_as_a_call_of_its_own(tmp_path: Path):
    bench = Bench(tmp_path, CheckSettings("lint", "lint {files}"), terminal=playing("a.py:1: unused\n", 1))
    told = await bench.after(tmp_path / "a.py")
    assert told.startswith("The check lint (`lint a.py`) failed. Exit code 1 after")
    assert "a.py:1: unused" in told
    (started,) = of_type(bench.recorder.events, ToolCallStarted)
    assert (started.call.title, started.call.kind) == ("Check lint: lint a.py", "execute")
    (finished,) = bench.finished
    assert finished.status is ToolCallStatus.FAILED
    (decided,) = of_type(bench.recorder.events, PermissionDecided)
    assert (decided.verdict, decided.rule) == ("allow", "configured")


async def test_a_check_that_passes_says_nothing_unless_it_always_does(tmp_path: Path):
    quiet, loud = CheckSettings("quiet", "a"), CheckSettings("loud", "b", feed="always")
    bench = Bench(tmp_path, quiet, loud, terminal=playing("fine\n"))
    told = await bench.after(tmp_path / "a.py")
    assert told.startswith("The check loud (`b`) passed.")
    assert "quiet" not in told
    assert [call.status for call in bench.finished] == [ToolCallStatus.COMPLETED] * 2


async def test_formatters_go_before_linters_and_tests(tmp_path: Path):
    terminal = playing("")
    bench = Bench(tmp_path, *(CheckSettings(kind, kind, kind=kind) for kind in KINDS), terminal=terminal)
    await bench.after(tmp_path / "a.py")
    assert [request.line for request in terminal.requests] == ["formatter", "linter", "test"]


async def test_what_a_formatter_makes_of_a_file_is_what_the_model_knows(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    check = CheckSettings("upper", "printf 'ONE\\ntwo\\n' > {files}", kind="formatter")
    bench = Bench(tmp_path, check, terminal=LocalTerminal(process_environment()))
    await bench.tools.call(ReadFileTool(), path="a.txt")
    told = await bench.after(path)
    assert told.startswith("The formatter upper changed a.txt further:\n")
    assert "-one\n+ONE" in told
    now = await bench.tools.context.files.read_text_file(str(path))
    assert list(bench.tools.context.read_fingerprints.values()) == [now.fingerprint]


async def test_a_refusal_of_the_person_holds_for_checks_too(tmp_path: Path):
    terminal = playing("")
    bench = Bench(tmp_path, CheckSettings("lint", "make lint"), terminal=terminal)
    bench.state.grants.append(Grant(Effect.DENY, GrantKind.COMMAND_PREFIX, '["make"]'))
    told = await bench.after(tmp_path / "a.py")
    assert "did not run: You refused this" in told
    assert terminal.requests == []


async def test_a_check_that_cannot_start_is_told(tmp_path: Path):
    error = CommandFailedToStartError("There is no shell.")
    bench = Bench(
        tmp_path, CheckSettings("lint", "lint"), terminal=FakeTerminal(lambda _: PlayedCommand(start_error=error))
    )
    assert "There is no shell." in await bench.after(tmp_path / "a.py")
    bench = Bench(tmp_path, CheckSettings("odd", "a\0b"), terminal=playing(""))
    assert "The check odd did not run" in await bench.after(tmp_path / "a.py")
    assert bench.finished == []


async def test_a_check_ends_at_its_time_limit(tmp_path: Path):
    terminal = LocalTerminal(process_environment())
    bench = Bench(tmp_path, CheckSettings("slow", "sleep 60", timeout_seconds=1), terminal=terminal)
    async with passing(1.5):
        assert "time limit of 1 s" in await bench.after(tmp_path / "a.py")


async def test_a_check_ends_with_the_turn(tmp_path: Path):
    started = anyio.Event()

    def play(_request: CommandRequest) -> PlayedCommand:
        started.set()
        return PlayedCommand(hangs=True)

    terminal = FakeTerminal(play)
    bench = Bench(tmp_path, CheckSettings("slow", "sleep 60"), terminal=terminal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.after, tmp_path / "a.py")
        await started.wait()
        tasks.cancel_scope.cancel()
    (finished,) = bench.finished
    assert (finished.status, finished.interrupted) == (ToolCallStatus.FAILED, True)
    assert terminal.commands[0].released


@pytest.mark.parametrize("changed", [(), ("gone.py",)])
async def test_nothing_runs_without_a_file_that_it_is_for(tmp_path: Path, changed: tuple[str, ...]):
    terminal = playing("")
    bench = Bench(tmp_path, CheckSettings("js", "eslint", ("*.js",)), terminal=terminal)
    assert await bench.after(*(tmp_path / name for name in changed)) == ""
    assert terminal.requests == []
