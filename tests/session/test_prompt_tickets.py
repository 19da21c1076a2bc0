"""Prompts of one session and what they wait for."""

import anyio
import anyio.lowlevel

from pattern_acp.session.session import PromptTicket


async def test_a_prompt_does_not_run_beside_one_that_a_withdrawn_prompt_still_had_to_wait_for():
    runs = PromptTicket()
    withdrawn = PromptTicket(before=runs)
    last = PromptTicket(before=withdrawn)
    passed: list[str] = []

    async def wait() -> None:
        await last.wait_for_earlier()
        passed.append("last")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        withdrawn.done.set()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert passed == []
        runs.done.set()
    assert passed == ["last"]
    assert last.before is None
