"""The end of a command with everything that it started."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import anyio
import pytest
from anyio.abc import Process

from pattern_acp.processes.groups import end_group


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has ended and was not waited for")
def test_a_group_whose_members_have_ended_is_not_waited_for_until_somebody_notices():
    async def end() -> None:
        with anyio.fail_after(30):
            await end_group(cast("Process", SimpleNamespace(pid=ended.pid)), grace=600)

    with subprocess.Popen(["true"], start_new_session=True) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        anyio.run(end)
