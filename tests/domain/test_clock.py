"""Times for people."""

import subprocess
import sys

import pytest

from tests.support.process import agent_environment

PROGRAM = (
    "from pattern_acp.domain.clock import *; print(local_minute(1_800_000_000_000), local_moment(1_800_000_000_000))"
)


@pytest.mark.skipif(sys.platform == "win32", reason="TZ does not name zones there")
@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2027-01-15 08:00 Friday 2027-01-15 08:00 UTC+00:00"),
        ("JST-9", "2027-01-15 17:00 Friday 2027-01-15 17:00 UTC+09:00"),
    ],
)
def test_a_person_reads_times_of_their_own_zone(zone: str, shown: str, tmp_path_factory: pytest.TempPathFactory):
    environment = {**agent_environment(tmp_path_factory.mktemp("home")), "TZ": zone}
    told = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == f"{shown}\n"
