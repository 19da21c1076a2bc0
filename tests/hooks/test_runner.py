"""Commands that really run."""

from functools import partial

import anyio

from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import HookSettings
from pattern_acp.hooks import HookRunner, HookVerdict
from pattern_acp.workspace.shell import shell_command
from tests.support.passing_time import passing

PATH = process_environment()["PATH"]
RUNNER = HookRunner({"PATH": PATH}, partial(shell_command, environment={"PATH": PATH}))


async def ran(command: str, *, seconds: int = 60):
    return await RUNNER.run(HookSettings("UserPromptSubmit", command, timeout_seconds=seconds), {"a": 1}, "/")


async def test_a_command_reads_the_payload_and_answers():
    assert (await ran("cat; echo; pwd; echo $CLAUDE_PROJECT_DIR")).context == '{"a": 1}\n\n/\n/'


async def test_a_command_that_reads_nothing_is_no_failure():
    assert (await ran("exec 0<&-; echo done")).context == "done"


async def test_a_command_at_its_limit_has_no_opinion_and_ends_with_what_it_started():
    async with passing(1.5):
        answer = await ran("sleep 600 & sleep 600", seconds=1)
    assert (answer.verdict, answer.problem) == (HookVerdict.NONE, "took longer than its 1 s, so it was ended")


async def test_what_a_command_leaves_running_does_not_hold_the_turn():
    with anyio.fail_after(30):
        assert (await ran("sleep 600 & echo quick")).context == "quick"


async def test_a_folder_that_is_gone_is_said():
    answer = await RUNNER.run(HookSettings("Stop", "true"), {}, "/no/such/folder")
    assert "could not be started" in answer.problem


async def test_one_line_runs_once_however_often_it_is_named():
    hooks = [HookSettings("Stop", "echo x >&2; exit 2", source=str(number)) for number in range(3)]
    answers = await RUNNER.run_all([*hooks, HookSettings("Stop", "true")], {}, "/")
    assert [answer.verdict for _, answer in answers] == [HookVerdict.DENY, HookVerdict.NONE]


async def test_long_output_is_cut_and_never_kept_whole():
    answer = await ran("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(answer.context) < 11_000
