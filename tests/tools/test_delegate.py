"""What delegate makes of its arguments."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.tools.base import DelegatedTask, Progress, SubagentKind, ToolFailedError, ToolInputError, ToolOutcome
from pattern_acp.tools.delegate import Delegate
from tests.support.tools import tool_bench


class RecordedDelegation:
    """`Delegation` that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[DelegatedTask] = []
        self.refuses = False

    def tool_names(self, kind: SubagentKind) -> tuple[str, ...]:
        del kind
        return ("read_file", "write_file")

    def expect(self, calls: Mapping[ToolCallId, JsonObject]) -> None:
        del calls

    def refusal(self, call_id: ToolCallId) -> str:
        return f"No {call_id}." if self.refuses else ""

    def background_refusal(self, kind: SubagentKind) -> str:
        return f"No {kind} in the background." if kind is SubagentKind.WORKER else ""

    async def run(self, task: DelegatedTask, call_id: ToolCallId, progress: Progress) -> ToolOutcome:
        del call_id, progress
        self.asked.append(task)
        return ToolOutcome("report")


async def test_a_task_is_handed_on_with_resolved_paths_and_a_title_that_tells_it(tmp_path: Path):
    bench, delegation = tool_bench(tmp_path), RecordedDelegation()
    bench.context = replace(bench.context, delegation=delegation)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    prepared = await bench.prepare(Delegate(), kind="worker", task="Mend\nit.", paths=["link"], tools=["write_file"])
    assert prepared.title == "Worker: Mend ↵ it."
    assert (await prepared.run(bench.progress)).text == "report"
    real = str((tmp_path / "real").resolve())
    assert delegation.asked == [DelegatedTask(SubagentKind.WORKER, "Mend\nit.", "worker", ("write_file",), (real,))]


async def test_without_subagents_and_without_a_task_it_says_what_to_do(tmp_path: Path):
    bench = tool_bench(tmp_path)
    with pytest.raises(ToolFailedError, match="do the task yourself"):
        await bench.prepare(Delegate(), kind="explorer", task="Look.")
    bench.context = replace(bench.context, delegation=RecordedDelegation())
    with pytest.raises(ToolInputError, match="`task` must not be empty"):
        await bench.prepare(Delegate(), kind="explorer", task="  ")


async def test_what_it_needs_and_the_checks_of_a_worker_are_handed_on_and_a_refusal_is_told(tmp_path: Path):
    bench, delegation = tool_bench(tmp_path), RecordedDelegation()
    bench.context = replace(bench.context, delegation=delegation)
    prepared = await bench.prepare(Delegate(), kind="worker", task="Mend.", needs=["one"], checks=["pytest -q"])
    await prepared.run(bench.progress)
    (task,) = delegation.asked
    assert (task.needs, task.checks) == (("one",), ("pytest -q",))
    with pytest.raises(ToolInputError, match="checks is for a worker"):
        await bench.prepare(Delegate(), kind="explorer", task="Look.", checks=["true"])
    with pytest.raises(ToolInputError, match="No worker in the background"):
        await bench.prepare(Delegate(), kind="worker", task="Mend.", background=True)
    with pytest.raises(ToolInputError, match="leave needs out"):
        await bench.prepare(Delegate(), kind="explorer", task="Look.", background=True, needs=["one"])
    delegation.refuses = True
    with pytest.raises(ToolInputError, match="No call"):
        await bench.prepare(Delegate(), kind="worker", task="Mend.")
