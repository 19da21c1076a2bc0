import subprocess
import sys

import pytest

from tests.support.process import agent_environment

THREADS = """
import sys, threading
from pattern_acp.cli.serving import share_memory_of_threads
if sys.argv[1] == "shared":
    share_memory_of_threads()
together = threading.Barrier(5)
def take():
    together.wait()
    taken = [bytearray(2_000) for _ in range(1_000)]
    together.wait()
threads = [threading.Thread(target=take) for _ in range(4)]
for each in threads:
    each.start()
together.wait()
sizes = [line.split() for line in open("/proc/self/maps")]
spans = [(int(place.split("-")[1], 16) - int(place.split("-")[0], 16), mode) for place, mode, *_ in sizes]
print(sum(mode == "---p" and 2**25 < size <= 2**26 for size, mode in spans))
together.wait()
"""


def heaps(how: str, **environment: str) -> int:
    """Heaps that glibc has made for threads, by the address space that it reserves for each."""
    command, env = (sys.executable, "-c", THREADS, how), agent_environment() | environment
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=env)
    return int(done.stdout)


GLIBC = pytest.mark.skipif(sys.platform != "linux" or sys.maxsize < 2**32, reason="heaps of threads are glibc's")


@GLIBC
def test_threads_of_a_served_agent_take_memory_from_one_heap():
    if not heaps("apart"):
        pytest.skip("this C library makes no heaps of threads")
    assert heaps("shared") == 0


@GLIBC
@pytest.mark.parametrize(("name", "value"), [("MALLOC_ARENA_MAX", "8"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=8")])
def test_a_number_of_heaps_that_the_user_has_set_stays(name: str, value: str):
    assert heaps("shared", **{name: value}) == heaps("apart", **{name: value})


def test_an_agent_starts_in_a_python_without_ctypes():
    code = (
        "import sys; sys.modules['ctypes'] = None\n"
        "from pattern_acp.cli.serving import share_memory_of_threads\n"
        "share_memory_of_threads()"
    )
    assert subprocess.run((sys.executable, "-c", code), check=False).returncode == 0
