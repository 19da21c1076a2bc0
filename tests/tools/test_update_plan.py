from pathlib import Path

from pattern_acp.domain.access import NoEffect
from pattern_acp.domain.tool_calls import Plan, PlanEntry, PlanPriority, PlanStatus
from pattern_acp.tools.task import UpdatePlan
from tests.support.tools import tool_bench


async def test_the_plan_is_replaced_by_the_steps_given(tmp_path: Path):
    bench = tool_bench(tmp_path)
    entries = [{"content": "Look", "status": "completed", "priority": "high"}, {"content": "Act"}]
    prepared = await bench.prepare(UpdatePlan(), entries=entries)
    assert prepared.accesses == (NoEffect(),)
    outcome = await prepared.run(bench.progress)
    assert outcome.plan == Plan((PlanEntry("Look", PlanPriority.HIGH, PlanStatus.COMPLETED), PlanEntry("Act")))
    assert outcome.text == "The plan is shown: 2 steps, 1 completed."
