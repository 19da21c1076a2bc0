"""What a call looked at before it was decided on is told only where policy lets the model read it."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.messages import ToolCallPart
from pattern_acp.journal.events import ToolCallStarted
from pattern_acp.policy.decision import Mode, PermissionAnswer
from pattern_acp.policy.grants import Effect, Grant, GrantKind
from pattern_acp.tools.apply_patch import ApplyPatch
from pattern_acp.tools.base import PreparedCall, Tool, ToolContext, ToolFailedError, find_target
from pattern_acp.tools.edit_file import EditFile, WriteFile
from pattern_acp.tools.read_file import ReadFileTool
from pattern_acp.turn.permissions import REFUSED, PermissionChecker, PolicyState
from pattern_acp.turn.tool_runner import ToolRunner
from tests.support.approver import ScriptedApprover
from tests.support.constellation import FakeClock
from tests.support.tools import FakeTool, ToolBench, tool_bench
from tests.support.turn_recorder import FakeRecorder
from tests.support.turns import of_type

SECRET = "planted"
ONCE, NO = PermissionAnswer.ALLOW_ONCE, PermissionAnswer.REJECT_ONCE
NEARLY: Json = [{"old_text": "KEY=wrong", "new_text": "x"}]
FITTING: Json = [{"old_text": "KEY", "new_text": "x"}]


class Careless(FakeTool):
    """A tool whose author thought of nothing: it fails with all that it saw."""

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        del call_id
        path = arguments["path"]
        assert isinstance(path, str)
        if arguments.get("past_the_port"):
            target = await find_target(path, context)
            raise ToolFailedError(await anyio.Path(target.path).read_text())
        raise ToolFailedError((await context.files.read_text_file(path)).text)


@dataclass(slots=True)
class Bench:
    root: Path
    mode: Mode = Mode.AUTO
    clock: FakeClock = field(default_factory=FakeClock)
    recorder: FakeRecorder = field(default_factory=FakeRecorder)
    tools: ToolBench = field(init=False)
    state: PolicyState = field(init=False)
    approver: ScriptedApprover = field(init=False)
    runner: ToolRunner = field(init=False)

    def __post_init__(self) -> None:
        self.root.mkdir()
        (self.root / ".env").write_text(f"KEY={SECRET}\nMORE={SECRET}\n")
        (self.root / "plain.txt").write_text("plain\n")
        self.tools = tool_bench(self.root)
        self.state = PolicyState(self.mode, (str(self.root.resolve()),))
        self.approver = ScriptedApprover([], self.clock)
        permissions = PermissionChecker(self.state, self.approver, self.recorder, clock=self.clock)
        tools: list[Tool] = [Careless(), EditFile(), WriteFile(), ApplyPatch(), ReadFileTool()]
        self.runner = ToolRunner(tools, self.tools.context, permissions, self.recorder, clock=self.clock)

    async def call(self, tool: str, *answers: PermissionAnswer, **arguments: Json) -> str:
        """What the model reads; the answers must be as many as there are questions."""
        self.approver.answers += answers
        before = len(self.approver.requests)
        with anyio.fail_after(30):
            (result,) = await self.runner.run(
                TurnId("turn_1"), [ToolCallPart(ToolCallId("call_1"), tool, json.dumps(arguments))]
            )
        assert len(self.approver.requests) - before == len(answers)
        return result.text


async def test_a_tool_that_fails_with_what_it_read_tells_it_only_when_reading_is_allowed(tmp_path: Path):
    bench = Bench(tmp_path / "project")
    (tmp_path / "outside.txt").write_text(SECRET)
    (bench.root / "link").symlink_to(tmp_path / "outside.txt")
    for path in (".env", "../outside.txt", "link", str(tmp_path / "outside.txt")):
        whole = str(bench.root / path)
        assert await bench.call("look", NO, path=whole) == REFUSED
        assert await bench.call("look", NO, path=path, past_the_port=True) == REFUSED
        assert SECRET in await bench.call("look", ONCE, path=whole)
    assert await bench.call("look", path=str(bench.root / "plain.txt")) == "plain\n"


async def test_an_edit_that_does_not_fit_is_decided_on_like_one_that_does(tmp_path: Path):
    plan = Bench(tmp_path / "plan", Mode.PLAN)
    assert await plan.call("edit_file", path=".env", edits=NEARLY) == await plan.call(
        "edit_file", path=".env", edits=FITTING
    )
    auto = Bench(tmp_path / "auto")
    for edits in (NEARLY, FITTING, [{"old_text": "=", "new_text": "x"}], [{"old_text": "", "new_text": "x"}]):
        assert await auto.call("edit_file", NO, path=".env", edits=edits) == REFUSED
    for path in ("../other/.env", "../other/no.env"):
        assert await auto.call("edit_file", NO, path=path, edits=NEARLY) == REFUSED


async def test_a_patch_that_fails_elsewhere_does_not_tell_that_it_fitted(tmp_path: Path):
    bench = Bench(tmp_path / "project")
    for line in (f"KEY={SECRET}", "KEY=wrong"):
        patch = (
            f"*** Begin Patch\n*** Update File: .env\n-{line}\n+x\n*** Update File: plain.txt\n-no\n+x\n*** End Patch"
        )
        assert await bench.call("apply_patch", NO, input=patch) == REFUSED
    question = bench.approver.requests[-1]
    assert question.call.title == "Edit .env, plain.txt"
    assert "which can show it text of .env." in str(question.call.content)


async def test_who_may_read_the_file_is_helped_at_once(tmp_path: Path):
    bench = Bench(tmp_path / "project")
    await bench.call("read_file", ONCE, path=".env")
    assert f"KEY={SECRET}" in await bench.call("edit_file", path=".env", edits=NEARLY)
    (bench.root / ".env").write_text("KEY=another\n")
    assert await bench.call("edit_file", NO, path=".env", edits=NEARLY) == REFUSED, "this text was never read"
    bench.state.grants.append(Grant(Effect.ALLOW, GrantKind.READ_FOLDER, str(bench.root.resolve() / ".env")))
    assert "KEY=another" in await bench.call("edit_file", path=".env", edits=NEARLY)


async def test_an_allowance_for_edits_is_none_for_reading(tmp_path: Path):
    bench = Bench(tmp_path / "project")
    bench.state.grants.append(Grant(Effect.ALLOW, GrantKind.EDIT_FOLDER, str(bench.root.resolve() / ".env")))
    assert await bench.call("edit_file", NO, path=".env", edits=NEARLY) == REFUSED
    bench.state.grants.append(Grant(Effect.DENY, GrantKind.READ_FOLDER, str(bench.root.resolve() / ".env")))
    assert "You refused this for this session: " in await bench.call("edit_file", path=".env", edits=NEARLY)


async def test_a_file_that_was_withheld_does_not_count_as_read(tmp_path: Path):
    bench = Bench(tmp_path / "project")
    for _ in range(2):
        assert await bench.call("write_file", NO, path=".env", content="x\n") == REFUSED
    assert SECRET in await bench.call("write_file", ONCE, path=".env", content="x\n")
    assert (await bench.call("write_file", ONCE, path=".env", content="x\n")).startswith("Wrote .env (1 line")


async def test_a_text_that_came_while_the_change_was_asked_about_is_not_shown(tmp_path: Path):
    bench = Bench(tmp_path / "project")
    bench.approver.while_asked = lambda: (bench.root / ".env").write_text("KEY=another\n")
    told = await bench.call("edit_file", ONCE, path=".env", edits=[{"old_text": f"KEY={SECRET}", "new_text": "x"}])
    assert told.startswith(".env was changed after this change was prepared. Nothing was written.")
    assert "another" not in told


async def test_a_call_that_is_denied_shows_no_diff_of_a_file_that_may_not_be_read(tmp_path: Path):
    bench = Bench(tmp_path / "project", Mode.PLAN)
    await bench.call("edit_file", path=".env", edits=FITTING)
    await bench.call("edit_file", path="plain.txt", edits=[{"old_text": "plain", "new_text": "x"}])
    hidden, shown = (event.call.content for event in of_type(bench.recorder.events, ToolCallStarted))
    assert hidden == ()
    assert shown != ()
