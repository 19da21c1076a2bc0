"""The claim of the standard descriptors, in processes of their own."""

import os
import subprocess
import sys

import pytest

from pattern_acp.jsonrpc.stdio import read_first, write_first

CLAIM = """
import os, subprocess, sys
from pattern_acp.jsonrpc.stdio import claim_standard_streams
reader, writer = claim_standard_streams()
"""


def run(program: str, *, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", CLAIM + program], input=stdin, capture_output=True, timeout=50, check=True
    )


def test_prints_descriptors_and_children_cannot_reach_the_wire():
    result = run(
        """
print("from print", flush=True)
os.write(1, b"from a descriptor\\n")
subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
os.write(writer, b"the wire\\n")
"""
    )
    assert result.stdout == b"the wire\n"
    for name in (b"from print", b"from a descriptor", b"from a child"):
        assert name in result.stderr


def test_nobody_else_can_read_what_the_peer_sends():
    result = run(
        """
child = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"],
                       stdout=subprocess.PIPE, check=True)
os.write(writer, b"%r %r %r" % (sys.stdin.read(), child.stdout.strip(), os.read(reader, 100)))
""",
        stdin=b"a message\n",
    )
    assert result.stdout == b"'' b'0' b'a message\\n'"


def test_children_do_not_inherit_the_private_descriptors():
    result = run("os.write(writer, b'%r' % [os.get_inheritable(fd) for fd in (reader, writer, 0, 1)])")
    assert result.stdout == b"[False, False, True, True]"


@pytest.mark.parametrize("closed", [[0], [0, 1], [0, 1, 2], [2]])
def test_standard_descriptors_that_are_closed_count_as_the_null_device(closed: list[int]):
    result = subprocess.run(
        [sys.executable, "-c", f"import os; [os.close(fd) for fd in {closed}]" + CLAIM + "os.write(writer, b'out')"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=50,
        check=True,
    )
    assert result.stdout == (b"" if 1 in closed else b"out")


def test_the_claim_needs_nothing_that_a_bare_interpreter_has_not_loaded():
    program = (
        "import sys; before = set(sys.modules); import pattern_acp.jsonrpc.stdio; print(set(sys.modules) - before)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=50, check=True, text=True)
    assert result.stdout.count("'") // 2 == 3, result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot wait for pipes")
@pytest.mark.parametrize(
    "sent", [b"", b"half a li", b"a line\n", b"a line\nand the next\n", b"x" * 20_000], ids=lambda sent: sent[:9]
)
def test_what_the_peer_sent_before_is_there_at_once_and_nothing_else_is_waited_for(sent: bytes):
    reader, writer = os.pipe()
    try:
        os.write(writer, sent)
        assert read_first(reader) == sent
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot wait for pipes")
def test_the_end_and_an_error_of_the_first_read_are_left_to_who_reads_on():
    reader, writer = os.pipe()
    os.write(writer, b"the end")
    os.close(writer)
    assert read_first(reader) == b"the end"
    assert read_first(reader) == b""
    os.close(reader)
    assert read_first(reader) == b""


def test_a_first_line_that_nobody_reads_is_known_not_to_be_taken():
    reader, writer = os.pipe()
    assert write_first(writer, b"an answer\n")
    assert os.read(reader, 100) == b"an answer\n"
    os.close(reader)
    assert not write_first(writer, b"an answer\n")
    os.close(writer)
