"""What every test shares."""

import os
import signal
from collections.abc import Callable, Generator, Sequence

import pytest
from hypothesis import HealthCheck, settings

from tests.support.passing_time import PassingLoop
from tests.support.programs import problem_of

# What decides whether a change lands must give the same answer twice; `--hypothesis-profile=explore` looks further.
# Time limits of single examples, and of how fast examples are made, would only tell how busy the machine is: pytest's
# own limit bounds each test.
BUSY = (HealthCheck.too_slow,)
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=BUSY, print_blob=True)
settings.register_profile(
    "explore", derandomize=False, deadline=None, suppress_health_check=BUSY, max_examples=500, print_blob=True
)
settings.load_profile("repeatable")

# Nothing of how the person who runs the tests likes their terminal and their git may decide what a test sees. Here and
# not in a fixture: modules of tests look at the environment when they are imported.
environment = os.environ  # noqa: TID251  it is set for all tests, not read
for name in list(environment):
    if name.startswith(("GIT_", "PATTERN_ACP_")) or name in {
        "COLUMNS",
        "LINES",
        "FORCE_COLOR",
        "NO_COLOR",
        "TTY_COMPATIBLE",
    }:
        del environment[name]
environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Callable[[], PassingLoop]]]:
    return "asyncio", {"loop_factory": PassingLoop}


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose programs do not work here; its reason says which, and what they said."""
    for mark in item.iter_markers("needs"):
        problem = problem_of(*mark.args, environment=mark.kwargs.get("environment"))
        if problem:
            pytest.skip(problem)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-faults",
        action="store_true",
        help="try every moment of a crash or a failing disk, for minutes, instead of a few of them",
    )


@pytest.fixture(scope="session")
def few(request: pytest.FixtureRequest) -> Callable[[int, int], Sequence[int]]:
    """`few(count, most)`: numbers below `count`, about `most` of them and always the same; all with `--all-faults`."""

    def choose(count: int, most: int) -> Sequence[int]:
        step = 1 if request.config.getoption("--all-faults") else max(1, -(-count // most))
        # A step that shares no factor with the pattern of writes (two for a page) meets all kinds of them.
        return range(0, count, step + (step > 1 and step % 2 == 0))

    return choose
