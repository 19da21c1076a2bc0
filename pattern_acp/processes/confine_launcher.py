"""The launcher of confined commands: `python -I -S confine_launcher.py PROFILE -- argv…`.

Owns: applying a profile (`processes.confinement`) to itself, and then being the command to the one who started it: same
streams, terminal and process group, same exit code or signal. Must not know: anything of our packages. It is one file
that is started for every confined command, so it imports built-in modules and ctypes alone, and fails closed: a profile
that cannot be applied ends it with `FAILED` and a sentence on stderr.

Linux: a user namespace of its own with mounts (what is masked, what is read-only), processes (all that the command
starts ends with it, detached or not) and network (nothing but a loopback, its own or that of the session's other
commands, which `--hold` holds), and Landlock, which alone decides
on writes and keeps the command from undoing the rest. Where namespaces are not allowed, Landlock alone: then folders
are readable around what is masked, TCP is refused, and descendants are ended by a subreaper. What an older Landlock
does not know, mounts do, or nothing is confined. macOS: `sandbox-exec`.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # without the enumerations of `signal`, which take a third of the time

FAILED = 126
"""Exit code for a command that was not started because its profile could not be applied (POSIX: cannot execute)."""

_RESULT = b"PATTERN-ACP-PROFILE-1"

# Numbers of the system's headers (linux/sched.h, sys/mount.h, sys/prctl.h, linux/landlock.h, net/if.h).
NEW_MOUNTS, NEW_USER, NEW_PROCESSES, NEW_NETWORK, NEW_IPC = 0x20000, 0x10000000, 0x20000000, 0x40000000, 0x8000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, SLAVE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 19
DEATH_SIGNAL, DROP_BOUNDING, NO_NEW_PRIVILEGES, SUBREAPER, AMBIENT = 1, 24, 38, 36, 47
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PATH_ONLY = 0o10000000

EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER, TRUNCATE, DEVICE_CONTROL = 1, 2, 4, 8, 1 << 14, 1 << 15
ALL_OF_FILES = (0, 0x1FFF, 0x3FFF, 0x7FFF, 0x7FFF, 0xFFFF)
"""The rights on files that Landlock knows, by its version."""
KNOWS_TRUNCATION, KNOWS_NETWORK = 3, 4
"""The versions of Landlock (Linux 6.2 and 6.7) from which on it refuses to empty a file, and TCP."""
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL

PLAIN_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
ACCELERATORS = ("nvidia", "dri", "kfd", "accel")

KEPT_CAPABILITIES = {0, 1, 2, 3, 4, 5, 6, 7, 10, 31}
"""Those on files, ids and own processes, which root needs in a container: chown, dac_override, dac_read_search, fowner,
fsetid, kill, setgid, setuid, net_bind_service, setfcap. They reach no further than the namespace."""
_LAST_CAPABILITY = 40

FORWARDED = (1, 2, 3, 10, 12, 15)
"""HUP, INT, QUIT, USR1, USR2, TERM."""


LAST_SECONDS = 0.7
"""Time for a command that was asked to end with its whole group; a second after that it is killed (groups.py)."""


def _now() -> float:
    from time import monotonic

    return monotonic()


class RefusedError(Exception):
    """The profile cannot be applied."""


class Profile:
    """A profile as it was read: paths by their use."""

    def __init__(self, data: bytes) -> None:
        head, *entries = data.split(b"\0")
        if head != _RESULT:
            raise RefusedError("the profile is of another version")
        self.values: dict[bytes, list[bytes]] = {}
        for entry in entries:
            key, _, value = entry.partition(b"=")
            self.values.setdefault(key, []).append(value)

    def all(self, key: bytes) -> list[bytes]:
        """Every value of a key."""
        return self.values.get(key, [])

    def one(self, key: bytes) -> bytes:
        """The value of a key; empty when there is none."""
        return self.all(key)[0] if key in self.values else b""


def read_profile(path: str) -> Profile:
    """Read a profile that only its user can write and whose name is its hash; the file is gone afterwards."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise RefusedError("others can write the profile")
        data = b""
        while chunk := os.read(descriptor, 1 << 20):
            data += chunk
    finally:
        os.close(descriptor)
    # `hashlib` would load OpenSSL.
    hashes = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    if hashes.sha256(data).hexdigest() != os.path.basename(path).partition(".")[0]:
        raise RefusedError("the profile is not the one that its name says")
    os.unlink(path)
    return Profile(data)


class Kernel:
    """System calls that Python does not have."""

    def __init__(self) -> None:
        import ctypes

        self._c = ctypes
        self._library = ctypes.CDLL(None, use_errno=True)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function of the C library. Raises OSError where it failed."""
        c = self._c
        converted = [c.c_long(each) if isinstance(each, int) else each for each in arguments]
        result = getattr(self._library, name)(*converted)
        if result < 0:
            code = c.get_errno()
            raise OSError(code, os.strerror(code), name)
        return result

    def mount(self, source: bytes, target: bytes, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
        """Mount."""
        self.call("mount", source, target, kind, flags, options)

    def prctl(self, option: int, value: int = 0) -> None:
        """Set an attribute of this process."""
        self.call("prctl", option, value, 0, 0, 0)

    def landlock_version(self) -> int:
        """The version of Landlock; 0 where there is none."""
        try:
            return self.call("syscall", CREATE_RULESET, None, 0, 1)
        except OSError:
            return 0

    def drop_capabilities(self, kept: "set[int]") -> None:
        """Give up all capabilities but `kept`, for this process and what it starts."""
        for number in range(_LAST_CAPABILITY + 1):
            if number not in kept:
                try:
                    self.prctl(DROP_BOUNDING, number)
                except OSError:
                    break
        masks = [sum(1 << (each - 32 * half) for each in kept if each // 32 == half) for half in (0, 1)]
        header = (self._c.c_uint32 * 2)(0x20080522, 0)
        data = (self._c.c_uint32 * 6)(masks[0], masks[0], 0, masks[1], masks[1], 0)
        self.call("capset", header, data)

    def restrict(self, rules: "list[tuple[bytes, int]]", version: int, *, network: bool) -> None:
        """Allow this process, and all that it starts, only what `rules` say: paths with their rights."""
        known = ALL_OF_FILES[min(version, len(ALL_OF_FILES) - 1)]
        words = [known, 3 if version >= 4 and not network else 0, 3 if version >= 6 else 0]
        size = 8 if version < 4 else 16 if version < 6 else 24
        attributes = (self._c.c_uint64 * 3)(*words)
        ruleset = self.call("syscall", CREATE_RULESET, attributes, size, 0)
        try:
            for path, rights in rules:
                self._add(ruleset, path, rights & known)
            self.prctl(NO_NEW_PRIVILEGES, 1)
            self.call("syscall", RESTRICT_SELF, ruleset, 0)
        finally:
            os.close(ruleset)

    def _add(self, ruleset: int, path: bytes, rights: int) -> None:
        try:
            descriptor = os.open(path, PATH_ONLY | os.O_CLOEXEC)
        except OSError:
            return  # what is not there needs no rule
        try:
            if os.fstat(descriptor).st_mode & 0o170000 != 0o040000:
                rights &= ON_FILES
            # struct landlock_path_beneath_attr is packed: 12 bytes.
            packed = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
            self.call("syscall", ADD_RULE, ruleset, 1, self._c.create_string_buffer(packed, 12), 0)
        finally:
            os.close(descriptor)


def readable_around(hidden: "list[bytes]") -> "list[bytes]":
    """The paths that together are everything but `hidden`."""
    on_the_way = {parent for path in hidden for parent in parents(path)}
    found: list[bytes] = []
    waiting = [b"/"]
    while waiting:
        folder = waiting.pop()
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue  # a rule would be about what it leads to, which may be hidden
            if path in on_the_way:
                waiting.append(path)
            elif path not in hidden:
                found.append(path)
    return found


def parents(path: bytes) -> "list[bytes]":
    """The folders that `path` is in."""
    found: list[bytes] = []
    while path not in {b"/", b""}:
        path = os.path.dirname(path)
        found.append(path)
    return found


def landlock_rules(profile: Profile, *, masked: bool) -> "list[tuple[bytes, int]]":
    """The rules of a profile; `masked`: mounts hide what must not be read."""
    reading = EXECUTE | READ_FILE | READ_FOLDER
    hidden = [b"/dev"] if masked else [b"/dev", *profile.all(b"mask"), *profile.all(b"empty")]
    rules: list[tuple[bytes, int]] = [(b"/", READ_FOLDER)]
    rules += [(path, reading) for path in readable_around(hidden)]
    everything = ALL_OF_FILES[-1]
    rules += [(path, everything) for path in profile.all(b"write")]
    device = READ_FILE | WRITE_FILE | READ_FOLDER | DEVICE_CONTROL | TRUNCATE
    names = [*PLAIN_DEVICES, *(name for name in os.listdir("/dev") if name.startswith(ACCELERATORS))]
    rules += [(os.fsencode(f"/dev/{name}"), device) for name in names]
    rules.append((b"/dev/shm", everything))
    return rules


class Namespaces:
    """Namespaces of our own, and what is mounted in them."""

    def __init__(self, kernel: Kernel, profile: Profile) -> None:
        # Now: what is mounted later may hide the folder of the interpreter.
        from _socket import AF_INET, SOCK_DGRAM, socket
        from fcntl import ioctl

        self._probe = lambda: socket(AF_INET, SOCK_DGRAM)
        self._ioctl = ioctl
        self._kernel = kernel
        self._profile = profile
        self._shares_network = False

    def enter(self) -> None:
        """Leave the namespaces that we were started in, for new ones or the network of the session's other commands.

        Raises:
            OSError: the system does not allow it.
        """
        joined = self._profile.one(b"join")
        if joined and self._join(joined):
            self._shares_network = True
            return
        network = 0 if self._profile.one(b"network") == b"host" else NEW_NETWORK
        self._leave(NEW_USER | NEW_MOUNTS | NEW_PROCESSES | NEW_IPC | network)

    def hold_network(self) -> None:
        """Enter a network of our own, which others can join. Raises OSError where the system does not allow it."""
        self._leave(NEW_USER | NEW_NETWORK)
        self._raise_loopback()
        self._kernel.drop_capabilities(set())

    def _join(self, holder: bytes) -> bool:
        """Join the network of a holder, named by its process and its namespace; False when it is gone."""
        process, _, inode = holder.partition(b":")
        try:
            user = os.open(b"/proc/" + process + b"/ns/user", os.O_RDONLY | os.O_CLOEXEC)
            network = os.open(b"/proc/" + process + b"/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            if os.fstat(network).st_ino != int(inode):
                return False
            self._kernel.call("setns", user, NEW_USER)
        except OSError:
            return False
        self._kernel.call("setns", network, NEW_NETWORK)
        self._kernel.call("unshare", NEW_MOUNTS | NEW_PROCESSES | NEW_IPC)
        return True

    def _leave(self, spaces: int) -> None:
        uid, gid = os.geteuid(), os.getegid()
        writer = self._start_writer() if uid == 0 else None
        try:
            self._kernel.call("unshare", spaces)
        except OSError:
            if writer is not None:
                writer(False)
            raise
        if writer is not None:
            writer(True)
            return
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")

    def _start_writer(self) -> "Callable[[bool], None]":
        """Start a child outside that maps all ids of root, which only a process outside may; files of others stay."""
        here = os.getpid()
        maps = {name: _identity(f"/proc/self/{name}") for name in ("uid_map", "gid_map")}
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            code = 1
            try:
                if os.read(reading, 1) == b"1":
                    for name, text in maps.items():
                        _write(f"/proc/{here}/{name}", text)
                code = 0
            finally:
                os._exit(code)
        os.close(reading)

        def go(entered: bool) -> None:
            os.write(writing, b"1" if entered else b"0")
            os.close(writing)
            if os.waitpid(child, 0)[1] and entered:
                raise OSError(1, "the ids of a user namespace could not be mapped")

        return go

    def furnish(self, version: int) -> None:
        """Hide, and make read-only, what the profile names; in the first process of the namespaces.

        `version` is that of Landlock, for what it leaves to mounts.

        Raises:
            OSError: it could not be done.
        """
        kernel, profile = self._kernel, self._profile
        kernel.mount(b"none", b"/", None, RECURSIVE | SLAVE)
        if profile.one(b"upper"):
            self._lay_over(profile.one(b"lower"))
        if profile.one(b"confines") == b"yes" and version < KNOWS_TRUNCATION:
            self._make_read_only_around(profile.all(b"write"))
        for path in profile.all(b"pin"):
            if os.path.exists(path):
                kernel.mount(path, path, None, BIND | RECURSIVE)
        for path in profile.all(b"readonly"):
            if os.path.exists(path):
                kernel.mount(path, path, None, BIND | RECURSIVE)
                self._remount(path, READ_ONLY)
        blank = profile.one(b"blank")
        for path in profile.all(b"mask"):
            if os.path.isdir(path):
                kernel.mount(blank + b"/folder", path, None, BIND)
                self._remount(path, READ_ONLY)
            elif os.path.lexists(path) and not os.path.islink(path):
                # A device where devices are not allowed cannot be opened, by root neither.
                kernel.mount(b"/dev/null", path, None, BIND)
                self._remount(path, NO_DEVICES)
        for path in profile.all(b"empty"):
            if os.path.isfile(path) and not os.path.islink(path):
                kernel.mount(blank + b"/file", path, None, BIND)
                self._remount(path, READ_ONLY)
        self._optional(b"tmpfs", b"/dev/shm", b"tmpfs", NO_SUID | NO_DEVICES, b"mode=1777")
        self._optional(b"proc", b"/proc", b"proc", NO_SUID | NO_DEVICES | NO_EXEC)
        if profile.one(b"network") != b"host" and not self._shares_network:
            self._raise_loopback()

    def _lay_over(self, lower: bytes) -> None:
        """Mount over a folder what shows it with the changes of another one."""
        places = [(b"lowerdir", lower), *((name + b"dir", self._profile.one(name)) for name in (b"upper", b"work"))]
        options = [name + b"=" + _escaped(place) for name, place in places]
        # What would need rights outside of the namespace stays off; extended attributes of users do.
        options += [b"userxattr", b"index=off", b"metacopy=off"]
        self._kernel.mount(b"overlay", lower, b"overlay", 0, b",".join(options))
        os.chdir(os.getcwd())  # onto what was mounted there

    def _make_read_only_around(self, writable: "list[bytes]") -> None:
        for path in writable:
            if os.path.exists(path):
                self._kernel.mount(path, path, None, BIND | RECURSIVE)
        for point in _mount_points():
            if not any(path == point or path in parents(point) for path in writable) and os.access(point, os.F_OK):
                self._remount(point, READ_ONLY)
        os.chdir(os.getcwd())  # onto what was mounted there

    def _optional(self, source: bytes, target: bytes, kind: bytes, flags: int, options: bytes | None = None) -> None:
        try:
            self._kernel.mount(source, target, kind, flags, options)
        except OSError:
            # A container hides parts of /proc; then the one that is there stays, and Landlock guards it.
            return

    def _remount(self, path: bytes, flags: int) -> None:
        # Flags that came with the mount are locked here: they have to be named again.
        inherited = os.statvfs(path).f_flag
        locked = sum(flag for flag in (READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC) if inherited & flag)
        times = sum(ours for ours, theirs in ((1024, 1024), (2048, 2048), (1 << 21, 4096)) if inherited & theirs)
        self._kernel.mount(b"none", path, None, BIND | REMOUNT | flags | locked | times)

    def _raise_loopback(self) -> None:
        probe = self._probe()
        try:
            # SIOCSIFFLAGS with IFF_UP | IFF_RUNNING on `lo` (netdevice(7)).
            self._ioctl(probe.fileno(), 0x8914, b"lo".ljust(16, b"\0") + (0x41).to_bytes(2, sys.byteorder) + bytes(22))
        finally:
            probe.close()


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _escaped(place: bytes) -> bytes:
    """A path as an option of a mount."""
    for character in (b"\\", b",", b":"):
        place = place.replace(character, b"\\" + character)
    return place


def _mount_points() -> "list[bytes]":
    """The places of all mounts (proc_pid_mountinfo(5)); white space and backslashes are octal there."""
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY)
    data = b""
    try:
        while chunk := os.read(descriptor, 1 << 16):
            data += chunk
    finally:
        os.close(descriptor)
    points = [line.split(b" ")[4] for line in data.splitlines()]
    for octal, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        points = [point.replace(octal, character) for point in points]
    return points


def _identity(path: str) -> str:
    """The ids that exist here, each mapped to itself."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        lines = os.read(descriptor, 1 << 16).decode().splitlines()
    finally:
        os.close(descriptor)
    ranges = [line.split() for line in lines]
    return "".join(f"{first} {first} {count}\n" for first, _, count in ranges)


def run(kernel: Kernel, profile: Profile, command: "list[str]") -> int:
    """Run a command confined; its wait status."""
    confines = profile.one(b"confines") == b"yes"
    version = kernel.landlock_version() if confines else 0
    if confines and version == 0:
        raise RefusedError("this kernel has no Landlock")
    spaces = Namespaces(kernel, profile)
    has_spaces = (confines or profile.one(b"upper") != b"") and profile.one(b"namespaces") == b"yes"
    if confines and not has_spaces and version < KNOWS_NETWORK:
        raise RefusedError("without namespaces Landlock has to be of Linux 6.7 or newer to refuse the network")
    if has_spaces:
        spaces.enter()
    else:
        kernel.prctl(SUBREAPER, 1)
    waited = {signal.SIGCHLD, *FORWARDED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    forward = profile.one(b"forward") == b"yes"
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(reading)
        try:
            kernel.prctl(DEATH_SIGNAL, 9)
            if has_spaces:
                spaces.furnish(version)
                second = os.fork()
                if second:
                    _follow(second, waited, forward=forward, report=writing)
            os.close(writing)
            _become(kernel, profile, version, command, before, masked=has_spaces)
        except OSError as error:
            _complain(f"{error.strerror} ({error.filename or command[0]})")
        except RefusedError as error:
            _complain(str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the command must not run, and somebody must know
            _complain(f"{type(error).__name__}: {error}")
        finally:
            os._exit(FAILED)
    os.close(writing)
    status = _follow(first, waited, forward=forward, report=None)
    told = os.read(reading, 8) if has_spaces else b""
    if not has_spaces:
        _end_descendants()
    return int.from_bytes(told, "little") if told else status


def _become(
    kernel: Kernel, profile: Profile, version: int, command: "list[str]", before: "set[int]", *, masked: bool
) -> None:
    if version:
        if os.geteuid() == 0:
            kernel.drop_capabilities(KEPT_CAPABILITIES)
        elif masked:
            kernel.drop_capabilities(set())
        network = masked or profile.one(b"network") == b"host"
        kernel.restrict(landlock_rules(profile, masked=masked), version, network=network)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and a command would inherit that
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        _complain(f"{command[0]}: not found")
        os._exit(127)


def _follow(child: int, waited: "set[int]", *, forward: bool, report: "int | None") -> int:
    """Wait for `child`, and for all others that end; pass signals on. The first process here never returns.

    Behind a TERM to the whole group a KILL follows, which would end us before what has left the group.
    """
    until = 0.0
    while True:
        left = until - _now() if until else 1e6
        came = signal.sigtimedwait(waited, max(left, 0.0))
        if came is None:
            if until:
                _end_descendants(reap=False)
                until = _now() + 0.05
            continue
        if came.si_signo != signal.SIGCHLD:
            if came.si_signo == signal.SIGTERM and not forward and report is None:
                until = _now() + LAST_SECONDS
            # What a terminal sends (SI_KERNEL), and what whole groups get, the command gets on its own.
            if forward and came.si_code <= 0:
                try:
                    os.kill(child, came.si_signo)
                except ProcessLookupError:
                    pass
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child:
                if report is None:
                    return status
                os.write(report, status.to_bytes(8, "little"))
                os._exit(0)


def _end_descendants(*, reap: bool = True) -> None:
    """Kill what the command left, detached or not: all of it is ours by now, since we are its subreaper."""
    here = os.getpid()
    for _ in range(100):
        try:
            descriptor = os.open(f"/proc/{here}/task/{here}/children", os.O_RDONLY)
        except OSError:
            return
        children = os.read(descriptor, 1 << 16).split()
        os.close(descriptor)
        if not children:
            return
        for each in children:
            try:
                os.kill(int(each), 9)
                if reap:
                    os.waitpid(int(each), 0)
            except OSError:
                continue
        if not reap:
            return


def _complain(sentence: str) -> None:
    os.write(2, f"pattern-acp: the sandbox did not start the command: {sentence}\n".encode())


def end_like(status: int) -> None:
    """End as the command did."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    from resource import RLIMIT_CORE, setrlimit

    number = os.WTERMSIG(status)
    setrlimit(RLIMIT_CORE, (0, 0))
    if number not in {9, 19}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def hold() -> None:
    """Hold a network for the commands of a session, until the input ends; never returns."""
    try:
        Namespaces(Kernel(), Profile(_RESULT)).hold_network()
        os.write(1, b"ready\n")
        while os.read(0, 64):
            pass
    except OSError as error:
        _complain(f"{error.strerror} ({error.filename or 'no path'})")
        os._exit(FAILED)
    os._exit(0)


def main(arguments: "list[str]") -> None:
    """Run the command line; never returns."""
    if arguments == ["--hold"]:
        hold()
    if len(arguments) < 3 or arguments[1] != "--":
        _complain("the words are PROFILE -- COMMAND…")
        os._exit(FAILED)
    try:
        profile = read_profile(arguments[0])
        for setting in profile.all(b"env"):
            name, _, value = setting.partition(b"=")
            os.environb[name] = value
        if sys.platform == "darwin":
            text = profile.one(b"seatbelt").decode()
            os.execv("/usr/bin/sandbox-exec", ["sandbox-exec", "-p", text, *arguments[2:]])
        status = run(Kernel(), profile, arguments[2:])
    except OSError as error:
        _complain(f"{error.strerror} ({error.filename or 'no path'})")
        os._exit(FAILED)
    except RefusedError as error:
        _complain(str(error))
        os._exit(FAILED)
    end_like(status)


if __name__ == "__main__":
    main(sys.argv[1:])
