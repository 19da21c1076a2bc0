"""What every test shares."""

import signal
from collections.abc import Generator

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> Generator[None, None, None]:
    """Undo what `nohup` and a shell's `&` do: children inherit an ignored signal, and ours are tested with them."""
    usual = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    ignored = [
        signal.Signals[name]
        for name in usual
        if name in signal.Signals.__members__ and signal.getsignal(signal.Signals[name]) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, usual[number.name])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
