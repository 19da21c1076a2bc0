import os
import subprocess
import sys

from pattern_acp.journal.leases import host_name, is_running, own_start_mark, start_mark, this_process


def test_this_process_runs_and_another_use_of_its_id_does_not():
    assert own_start_mark()
    assert is_running(os.getpid(), own_start_mark())
    assert not is_running(os.getpid(), "another mark")


def test_a_mark_that_could_not_be_read_leaves_a_living_process_alive():
    assert is_running(os.getpid(), "")


def test_a_child_runs_until_it_ends():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = start_mark(child.pid)
    assert mark
    assert is_running(child.pid, mark)
    child.communicate(b"\n", timeout=30)
    assert not is_running(child.pid, mark)


def test_ids_that_no_process_has_are_not_running():
    assert not is_running(0, "")
    assert not is_running(-5, "")
    assert not is_running(2**40, "")


def test_a_holder_describes_this_process():
    holder = this_process("random")
    assert (holder.holder, holder.pid, holder.host) == ("random", os.getpid(), host_name())
    assert holder.process_started == own_start_mark()
