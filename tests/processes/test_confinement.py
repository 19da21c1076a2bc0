"""Confined commands, with the kernel of this machine."""

import fcntl
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from pattern_acp.processes.confinement import LAUNCHER, Confinement, Profile, Sandbox, seatbelt_text, stopped_by_sandbox

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox of Linux"),
    pytest.mark.slow,
]

NETWORK = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2).sendall(b"leaked")
except OSError as error:
    print(error.strerror or error)
    sys.exit(7)
"""

OLDER = """
import sys
folder, version, profile, *command = sys.argv[1:]
sys.path.insert(0, folder)
import confine_launcher as launcher

class Older(launcher.Kernel):
    def landlock_version(self):
        return int(version)

try:
    launcher.end_like(launcher.run(Older(), launcher.read_profile(profile), command))
except launcher.RefusedError as error:
    print(error)
    sys.exit(launcher.FAILED)
"""
"""The launcher on a kernel whose Landlock is of an earlier version, as far as it uses more."""

EMPTIES = """
import os, sys
open("inside", "w").write("text")
os.truncate("inside", 0)
try:
    os.truncate(sys.argv[1], 0)
except OSError:
    print("refused")
"""


class Bench:
    """A home with a secret, a project, and commands that run in it."""

    def __init__(self, folder: Path, *, namespaces: bool) -> None:
        self.home, self.project = folder / "home", folder / "project"
        private = folder / "private"
        for each in (self.home / ".ssh", self.project / ".git" / "hooks", private):
            each.mkdir(parents=True)
        (self.home / ".ssh" / "id_ed25519").write_text("SECRET KEY")
        (self.home / "notes.txt").write_text("notes")
        (self.home / ".npmrc").write_text("//registry/:_authToken=SECRET")
        (self.project / ".env").write_text("KEY=SECRET")
        (self.project / ".git" / "config").write_text("[core]\n")
        # The second mechanism is taken on purpose, also where the first works.
        self.confinement = Confinement(private, found=Sandbox("chosen", namespaces=namespaces))
        self.profile = Profile(
            writable=(str(self.project),),
            pinned=(str(self.project / ".git"),),
            read_only=(str(self.project / ".git" / "hooks"), str(self.project / ".git" / "config")),
            masked=(str(self.home / ".ssh"), str(self.project / ".env")),
            emptied=(str(self.home / ".npmrc"),),
        )

    def start(self, *command: str, in_group: bool = True, profile: Profile | None = None) -> "subprocess.Popen[str]":
        confined = self.confinement.prepare(profile or self.profile, command, in_group=in_group)
        return subprocess.Popen(
            confined.arguments,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, line: str, *arguments: str, profile: Profile | None = None) -> tuple[int, str]:
        started = self.start("/bin/bash", "-c", line, "bash", *arguments, profile=profile)
        output = started.communicate(timeout=20)[0]
        return started.returncode, output


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    folder = tmp_path_factory.mktemp("trial")
    sandbox = anyio.run(Confinement(folder).find)
    if not sandbox.name:
        pytest.skip(sandbox.problem)
    return sandbox


@pytest.fixture(params=["namespaces", "landlock"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, found: Sandbox) -> Bench:
    if request.param == "namespaces" and not found.namespaces:
        pytest.skip(found.problem)
    return Bench(tmp_path, namespaces=request.param == "namespaces")


@pytest.fixture
def spaces(tmp_path: Path, found: Sandbox) -> Bench:
    if not found.namespaces:
        pytest.skip(found.problem)
    return Bench(tmp_path, namespaces=True)


@pytest.fixture
def sink() -> Iterator[tuple[int, list[bytes]]]:
    """A server on the loopback, and what reached it."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    received.append(connection.recv(100))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], received
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_it_writes_in_its_folder_and_nowhere_else(bench: Bench):
    code, output = bench.run('echo a > inside; echo b > "$1"; echo c >> "$2"; mkdir /opt/x-$$', f"{bench.home}/new",
                             f"{bench.home}/notes.txt")  # fmt: skip
    assert code != 0
    assert output.count("Permission denied") + output.count("cannot create") >= 3
    assert (bench.project / "inside").read_text() == "a\n"
    assert (bench.home / "notes.txt").read_text() == "notes"
    assert not (bench.home / "new").exists()


def test_it_reads_what_lies_around_but_no_credentials(bench: Bench):
    _, output = bench.run('cat "$1/notes.txt"; cat "$1/.ssh/id_ed25519"; grep -r SECRET "$1"; head -c 3 /etc/passwd',
                          str(bench.home))  # fmt: skip
    assert "notes" in output
    assert "SECRET" not in output
    assert output.rstrip().endswith("roo")


def test_credentials_and_git_hooks_inside_its_folder_are_protected(spaces: Bench):
    line = "cat .env; grep -r SECRET .; echo x > .git/hooks/pre-commit; echo x >> .git/config; mv .git old; rm -rf .git"
    _, output = spaces.run(line)
    assert "SECRET" not in output.replace("grep -r SECRET", "")
    assert output.count("Read-only file system") >= 2
    assert (spaces.project / ".git" / "config").read_text() == "[core]\n"
    assert list((spaces.project / ".git" / "hooks").iterdir()) == []
    assert (spaces.project / ".env").read_text() == "KEY=SECRET"


def test_a_configuration_with_a_token_reads_as_empty(spaces: Bench):
    assert spaces.run('cat "$1/.npmrc"; echo read', str(spaces.home)) == (0, "read\n")


def test_it_reaches_no_server_of_this_machine(bench: Bench, sink: tuple[int, list[bytes]]):
    port, received = sink
    code, output = bench.run(f'{sys.executable} -c "$1" "$2"', NETWORK, str(port))
    assert (code, received) == (7, [])
    assert output.strip() in {"Connection refused", "Permission denied"}


def test_with_the_machine_s_network_it_reaches_the_server(bench: Bench, sink: tuple[int, list[bytes]]):
    port, received = sink
    profile = Profile(writable=(str(bench.project),), network=True)
    code, output = bench.run(f'{sys.executable} -c "$1" "$2"', NETWORK, str(port), profile=profile)
    assert (code, output, received) == (0, "", [b"leaked"])


def on_older_kernel(bench: Bench, version: int, *command: str) -> tuple[int, str]:
    confined = bench.confinement.prepare(bench.profile, (sys.executable, "-c", *command), in_group=True)
    older = (sys.executable, "-I", "-S", "-c", OLDER, str(LAUNCHER.parent), str(version), str(confined.file))
    words = confined.arguments[confined.arguments.index("--") + 1 :]
    ran = subprocess.run((*older, *words), cwd=bench.project, capture_output=True, text=True, check=False, timeout=20)
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("version", range(1, 7))
def test_what_an_older_kernel_does_not_refuse_is_refused_by_mounts_or_nothing_runs(
    bench: Bench, sink: tuple[int, list[bytes]], version: int
):
    port, received = sink
    alone = not bench.confinement.found or not bench.confinement.found.namespaces
    done = on_older_kernel(bench, version, EMPTIES, str(bench.home / "notes.txt"))
    if alone and version < 4:
        assert done == (126, "without namespaces Landlock has to be of Linux 6.7 or newer to refuse the network\n")
        return
    assert done == (0, "refused\n")
    assert (bench.home / "notes.txt").read_text() == "notes"
    assert (bench.project / "inside").read_text() == ""
    assert on_older_kernel(bench, version, NETWORK, str(port))[0] == 7
    assert received == []


def test_it_has_a_loopback_of_its_own(spaces: Bench):
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    assert spaces.run(f'{sys.executable} -c "$1"', code) == (0, "")


def test_it_neither_signals_nor_reads_other_processes(bench: Bench):
    other = subprocess.Popen(["sleep", "60"], env={"KEY": "SECRET", "PATH": os.defpath})
    try:
        _, output = bench.run('kill -9 "$1"; cat /proc/"$1"/environ; cat /proc/"$PPID"/environ', str(other.pid))
        assert "SECRET" not in output
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_it_cannot_undo_the_sandbox(spaces: Bench):
    line = "umount .env; mount --bind / .; unshare -rm umount .env; cat .env; chmod 777 .git/hooks; ls /proc/1/root/"
    _, output = spaces.run(line)
    assert "SECRET" not in output
    assert (spaces.project / ".git" / "hooks").stat().st_mode & 0o777 != 0o777


def running_sleepers(marker: str) -> list[int]:
    found: list[int] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 5
    while running_sleepers(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not running_sleepers(marker)


@pytest.mark.parametrize("profile", [None, Profile(confines=False)], ids=["confined", "unconfined"])
def test_what_it_detached_ends_with_it(bench: Bench, profile: Profile | None):
    marker = f"30{time.monotonic_ns() % 10**7}"
    line = f"""(setsid setsid bash -c 'trap "" TERM HUP; sleep {marker}; true' &); sleep 0.4; echo done"""
    code, output = bench.run(line, profile=profile)
    assert (code, output) == (0, "done\n")
    assert gone(marker)


def test_what_it_detached_ends_when_the_group_is_stopped(bench: Bench):
    marker = f"31{time.monotonic_ns() % 10**7}"
    started = bench.start("/bin/bash", "-c", f"(setsid sleep {marker} &); echo up; sleep 60")
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    os.killpg(started.pid, signal.SIGTERM)
    started.communicate(timeout=10)
    assert gone(marker)


def test_what_it_detached_ends_when_its_launcher_is_killed(spaces: Bench):
    marker = f"32{time.monotonic_ns() % 10**7}"
    started = spaces.start("/bin/bash", "-c", f"(setsid sleep {marker} &); echo up; sleep 60", in_group=False)
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    started.kill()
    started.communicate(timeout=10)
    assert gone(marker)


@pytest.mark.parametrize(("line", "code"), [("exit 3", 3), ("true", 0), ("kill -TERM $$", -15), ("kill -KILL $$", -9)])
def test_it_ends_as_the_command_did(bench: Bench, line: str, code: int):
    assert bench.run(line)[0] == code


def test_a_signal_to_the_launcher_reaches_the_command(bench: Bench):
    line = "trap 'echo stopping; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    started = bench.start("/bin/bash", "-c", line, in_group=False)
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    started.terminate()
    assert (started.communicate(timeout=10)[0], started.returncode) == ("stopping\n", 5)


def test_a_terminal_and_its_size_are_the_command_s(bench: Bench):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    line = "test -t 0 && test -t 1 && stty size && echo -n on > /dev/tty"
    confined = bench.confinement.prepare(bench.profile, ("/bin/bash", "-c", line), in_group=False)
    started = subprocess.Popen(
        ("/bin/sh", "-c", 'exec "$@" <>"$0" >&0 2>&1', os.ttyname(theirs), *confined.arguments),
        cwd=bench.project, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    assert started.wait(10) == 0
    assert os.read(ours, 100) == b"33 77\r\non"
    os.close(ours)
    os.close(theirs)


def test_a_profile_is_gone_once_it_was_read_and_others_may_not_write_it(bench: Bench):
    confined = bench.confinement.prepare(bench.profile, ("/bin/true",), in_group=True)
    assert confined.file.stat().st_mode & 0o777 == 0o600
    assert subprocess.run(confined.arguments, check=False, cwd=bench.project).returncode == 0
    assert not confined.file.exists()
    assert subprocess.run(confined.arguments, check=False, capture_output=True).returncode == 126
    for is_open in (True, False):
        confined = bench.confinement.prepare(bench.profile, ("/bin/true",), in_group=True)
        if is_open:
            confined.file.chmod(0o666)
        else:
            confined.file.write_bytes(confined.file.read_bytes() + b"\0write=/")
        refused = subprocess.run(confined.arguments, check=False, capture_output=True, text=True)
        assert refused.returncode == 126
        assert refused.stderr.startswith("pattern-acp: the sandbox did not start the command: ")


def test_a_command_that_does_not_exist_says_so(bench: Bench):
    started = bench.start("/nowhere/program")
    assert (started.communicate()[0].endswith("/nowhere/program: not found\n"), started.returncode) == (True, 127)


def test_what_was_stopped_is_found_in_the_output(bench: Bench):
    _, output = bench.run('echo x > "$1/new"', str(bench.home))
    assert stopped_by_sandbox(output, bench.profile, str(bench.project)) == (
        f"The sandbox does not let commands write {bench.home}/new."
    )
    assert stopped_by_sandbox("cat: .env: Permission denied", bench.profile, str(bench.project)) == (
        f"The sandbox does not let commands read {bench.project}/.env."
    )
    failed = "curl: (6) Could not resolve host: example.com"
    assert stopped_by_sandbox(failed, bench.profile, "/") == "The sandbox has no network (example.com)."
    inside = f"bash: {bench.project}/a: Permission denied"
    assert stopped_by_sandbox(inside, bench.profile, "/") == ""
    assert stopped_by_sandbox("1 test failed", bench.profile, "/") == ""


async def test_windows_has_none_and_says_so(tmp_path: Path):
    sandbox = await Confinement(tmp_path, platform="win32").find()
    assert sandbox == Sandbox(problem="Windows has no sandbox that pattern-acp can use.")


def test_the_profile_for_macos_names_every_path_and_cuts_the_network():
    profile = Profile(("/p",), ("/p/.git",), ("/p/.git/hooks",), ("/h/.ssh",), ("/h/.npmrc",))
    text = seatbelt_text(profile)
    assert '(allow file-write* (subpath "/p"))' in text
    assert '(deny file-write* (subpath "/p/.git/hooks"))' in text
    assert '(deny file-read* file-write* (subpath "/h/.ssh"))' in text
    assert text.index("(allow file-write* (subpath") < text.index('(deny file-write* (subpath "/p/.git/hooks"))')
    assert text.endswith("(deny network*)")
    assert seatbelt_text(Profile(('/a"b',), network=True)).count('(subpath "/a\\"b")') == 1
