"""The command line is dispatched."""

from pkgutil import resolve_name
from typing import get_args

import pytest

from pattern_acp.cli.arguments import InTerminal
from pattern_acp.cli.main import RUNNERS


@pytest.mark.parametrize("command", get_args(InTerminal), ids=lambda command: command.__name__)
def test_every_command_has_a_runner_that_takes_it(command: type[InTerminal]):
    taken = resolve_name(RUNNERS[command]).__annotations__["arguments"]
    assert taken in (command, command.__name__)
