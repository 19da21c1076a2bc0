"""A short random walk over the real process; benchmarks/walk.py goes further, and with other seeds."""

from pathlib import Path

import pytest

from tests.support.walk import Walk

pytestmark = pytest.mark.e2e

STEPS = 14


def test_a_walk_of_odd_prompts_commands_and_kills_finds_nothing_wrong(tmp_path: Path):
    walk = Walk(1, tmp_path)
    walk.run(STEPS)
    assert [str(finding) for finding in walk.judge.findings] == []
