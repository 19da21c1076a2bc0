"""Serves ACP on two descriptors until the client is gone or the process is asked to end."""

import logging
import os
import signal
import threading
from collections.abc import Callable

import anyio

from pattern_acp.acp.agent import Agent
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.services import LazyServices
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.jsonrpc.transport import StdioTransport, Transport

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 1.2
"""For closing services once the connection ended."""

LAST_RESORT_SECONDS = 1.8
"""The process ends after this even if a thread cannot be stopped (invariant 9: within 2 s)."""


def serve(process: Process, read_fd: int, write_fd: int, received: bytes = b"", *, is_introduced: bool = False) -> int:
    """Serve until the end of input or SIGTERM; the exit code.

    Args:
        process: What the process starts from.
        read_fd: Where the client's lines come from.
        write_fd: Where ours go.
        received: What was read already.
        is_introduced: The initialize in `received` was answered already.
    """

    async def run() -> None:
        async with StdioTransport(read_fd, write_fd, received) as transport:
            await serve_transport(process, transport, is_introduced=is_introduced)

    anyio.run(run)
    return 0


async def serve_transport(
    process: Process, transport: Transport, *, last_resort: bool = True, is_introduced: bool = False
) -> None:
    """Serve one client over `transport`. `last_resort` ends the process when shutdown takes too long."""
    for problem in process.loaded.problems:
        logger.warning("%s", problem)
    services = LazyServices(process)
    # Invariant 9: turns that end wait, each for a bounded time, for a client that does not read.
    on_end = end_at_last if last_resort else None
    dispatcher = Agent(transport, services, translate, is_introduced=is_introduced, on_end=on_end).dispatcher
    async with anyio.create_task_group() as tasks:
        owner = anyio.Event()

        async def own_services() -> None:
            await services.run()
            owner.set()

        tasks.start_soon(own_services, name="services")
        tasks.start_soon(_stop_on_signal, dispatcher.end, last_resort, name="signals")
        await dispatcher.run()
        with anyio.move_on_after(SHUTDOWN_SECONDS):
            services.stop()
            await owner.wait()
        tasks.cancel_scope.cancel()


def translate(error: Exception) -> RpcError | None:
    """The error table, imported when the first error needs it."""
    from pattern_acp.acp.errors import to_rpc_error

    return to_rpc_error(error)


async def _stop_on_signal(end: Callable[[], None], last_resort: bool) -> None:  # noqa: FBT001  start_soon passes positionally
    if not last_resort or threading.current_thread() is not threading.main_thread():
        return
    try:
        with anyio.open_signal_receiver(*ending_signals()) as signals:
            # To the end, since a second signal would otherwise end the process before its children.
            is_ending = False
            async for _ in signals:
                if not is_ending:
                    is_ending = True
                    logger.info("Told to end.")
                    end_at_last()
                    end()
    except NotImplementedError:
        # Windows has no signal receiver on this loop; there the end of stdin is the only way.
        return


def ending_signals() -> list[signal.Signals]:
    """Signals that end a process.

    A terminal that closes sends SIGHUP, which is not for a process that was started to outlive it (nohup).
    """
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    known = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [each for each in known if signal.getsignal(each) is not signal.SIG_IGN]


def end_at_last(seconds: float = LAST_RESORT_SECONDS) -> None:
    """End the process in so many seconds, whatever still hangs."""
    timer = threading.Timer(seconds, os._exit, args=(0,))
    timer.daemon = True
    timer.start()
