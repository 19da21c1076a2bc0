"""A line of 60 MB over real pipes: taken, and answered."""

import os

import anyio
import anyio.to_thread

from pattern_acp.acp.agent import Agent
from pattern_acp.acp.errors import to_rpc_error
from pattern_acp.jsonrpc.transport import StdioTransport
from tests.support.agent import LateServices


async def test_a_line_of_60_megabytes_is_read_answered_and_followed_by_the_next():
    padding = "x" * 60_000_000
    long_line = f'{{"jsonrpc":"2.0","id":1,"method":"logout","params":{{"_meta":{{"padding":"{padding}"}}}}}}\n'
    next_line = '{"jsonrpc":"2.0","id":2,"method":"logout","params":{}}\n'
    to_agent, of_editor = os.pipe()
    to_editor, of_agent = os.pipe()

    def write() -> None:
        with os.fdopen(of_editor, "wb") as pipe:
            pipe.write((long_line + next_line).encode())

    async with StdioTransport(to_agent, of_agent) as transport, anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(transport, LateServices(), to_rpc_error).dispatcher.run)
        tasks.start_soon(anyio.to_thread.run_sync, write)
        with anyio.fail_after(100), os.fdopen(to_editor, "rb") as answers:
            for number in (1, 2):
                answer = await anyio.to_thread.run_sync(answers.readline)
                assert answer == b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % number
