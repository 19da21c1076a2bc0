"""What the tests of commands share."""

from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.config.settings import Flags


@pytest.fixture
def home(tmp_path: Path) -> Process:
    """The program as it starts for a person who configured nothing."""
    environ = {"PATTERN_ACP_HOME": str(tmp_path / "home"), "PATTERN_ACP_MODEL": "offline/offline"}
    return start_process(Flags(), {**environ, "PATH": "/usr/bin:/bin"})
