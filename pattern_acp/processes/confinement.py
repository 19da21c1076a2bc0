"""Sandboxes for commands: what this machine has, a profile for one command, and the command line that applies it.

Owns: the choice of mechanism on each platform (Landlock and namespaces on Linux, `sandbox-exec` on macOS, nothing on
Windows), found by trying; the profile's file. Must not know: which paths of a session are to be confined how, or who
asks. `confine_launcher` applies a profile, in a process that imports nothing else of ours.
"""

import hashlib
import os
import py_compile
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import asdict

from pattern_acp.domain.late_pattern import late_pattern

LAUNCHER = Path(__file__).with_name("confine_launcher.py")
"""Run by file name, isolated: it must not import anything that a project brings."""

PROBE_SECONDS = 5.0
"""Longest wait for one trial; the machine counts as one without a sandbox afterwards."""

MOST_HOLDERS = 8
"""Most loopbacks that are held at once, each by a process of 6 MB; beyond them the oldest is dropped."""

_VERSION = b"PATTERN-ACP-PROFILE-1"


class Layers(Struct, frozen=True):
    """A folder that a command sees with changes of its own, which go to another one (overlayfs; needs namespaces)."""

    lower: str
    upper: str
    """Folder for what is changed: files, and devices 0:0 for what is gone."""
    work: str
    """An empty folder on the same file system."""


class Profile(Struct, frozen=True):
    """Limits of one command. All paths are absolute and resolved."""

    writable: tuple[str, ...] = ()
    """Files and folders, with all below, that may be written; nothing else may."""
    pinned: tuple[str, ...] = ()
    """Folders in writable ones that may not be renamed, since something in them is read-only."""
    read_only: tuple[str, ...] = ()
    """Files and folders in writable ones that may not be written."""
    masked: tuple[str, ...] = ()
    """Files and folders that may not be read."""
    emptied: tuple[str, ...] = ()
    """Files that read as empty: programs fail on a configuration that they may not read."""
    network: bool = False
    """True when the command shares the machine's network; otherwise it has a loopback alone."""
    joined: str = ""
    """The holder of the loopback that it shares with others (`Confinement.hold`); empty for one of its own."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that the command gets, such as the place of its temporary files."""
    confines: bool = True
    """False for a command that is not confined, and of which only what it leaves behind is ended."""
    layers: Layers | None = None
    """The folder of which only this command's view changes."""


class Sandbox(Struct, frozen=True):
    """The sandbox of this machine."""

    name: str = ""
    """Its mechanisms in a few words; empty when there is none."""
    namespaces: bool = False
    """True when single files inside writable folders can be protected, and all network is cut."""
    problem: str = ""
    """A sentence: why there is none, or what it cannot do here."""


class ConfinedCommand(Struct, frozen=True):
    """The arguments that start a command in a sandbox, and the profile's file, which is removed afterwards."""

    arguments: tuple[str, ...]
    file: Path

    def remove(self) -> None:
        """Delete the profile, if its launcher has not yet."""
        self.file.unlink(missing_ok=True)


class Confinement:
    """The sandbox as commands of this process use it. `folder` is private to the user, and to this process.

    `supervise`: what an unconfined command detaches ends with it, too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        python: str = sys.executable,
        platform: str = sys.platform,
        supervise: bool = True,
        found: Sandbox | None = None,
    ) -> None:
        """`found` is what a trial has found before; None: `find` tries."""
        self._folder = folder
        self._supervise = supervise
        self._python = python
        self._platform = platform
        self._found = found
        self._finding = anyio.Lock(fast_acquire=True)
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._holding = threading.Lock()

    @property
    def found(self) -> Sandbox | None:
        """The sandbox; None while nobody has tried."""
        return self._found

    @property
    def supervises(self) -> bool:
        """True when an unconfined command can be started so that what it detaches ends with it."""
        return self._supervise and self._platform.startswith("linux") and bool(self._python) and LAUNCHER.is_file()

    async def find(self) -> Sandbox:
        """Try what works here, once."""
        async with self._finding:
            if self._found is None:
                self._found = await to_thread.run_sync(self._find, abandon_on_cancel=True)
            return self._found

    def temporary_folder(self, name: str) -> str:
        """Make a private folder for temporary files; blocks. Raises OSError where it cannot be made."""
        folder = self._folder / "temp" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return str(folder.resolve())

    def hold(self, name: str) -> str:
        """Hold a loopback that the commands of a session share; its holder for `Profile.joined`; blocks.

        Empty where none can be held: each command then has one of its own.
        """
        if self._found is None or not self._found.namespaces or not self._platform.startswith("linux"):
            return ""
        with self._holding:
            holder = self._holders.get(name)
            if holder is None or holder.poll() is not None:
                if len(self._holders) >= MOST_HOLDERS:
                    _let_go(self._holders.pop(next(iter(self._holders))))
                holder = self._holders[name] = self._start_holder()
            try:
                return f"{holder.pid}:{os.stat(f'/proc/{holder.pid}/ns/net').st_ino}" if holder.poll() is None else ""
            except OSError:
                return ""

    def _start_holder(self) -> "subprocess.Popen[bytes]":
        holder = subprocess.Popen(  # noqa: S603  # our own launcher, by its file
            (self._python, "-I", "-S", self._launcher(), "--hold"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        # It ends with its input, also when we are killed. One that could not begin ends at once.
        if holder.stdout is not None and not holder.stdout.readline():
            _let_go(holder)
        return holder

    async def keep_holders(self) -> None:
        """Run until cancelled, and then end the holders."""
        try:
            await anyio.sleep_forever()
        finally:
            while self._holders:
                _let_go(self._holders.popitem()[1])

    def prepare(self, profile: Profile, command: Sequence[str], *, in_group: bool) -> ConfinedCommand:
        """Write the profile, and name the program that starts `command` with it; blocks.

        `in_group`: signals go to the whole group of the command's processes, as ours do, so none is passed on.

        Raises:
            OSError: the file cannot be written.
        """
        namespaces = self._found is not None and self._found.namespaces
        return self._prepare(profile, command, namespaces=namespaces, in_group=in_group)

    def _prepare(
        self, profile: Profile, command: Sequence[str], *, namespaces: bool, in_group: bool
    ) -> ConfinedCommand:
        folder = self._folder.resolve()
        blank = folder / "blank"
        if not blank.is_dir():
            (blank / "folder").mkdir(mode=0o700, parents=True, exist_ok=True)
            (blank / "file").touch(mode=0o444)
            (blank / "folder").chmod(0)
        entries = {
            "write": profile.writable,
            "pin": profile.pinned,
            "readonly": profile.read_only,
            "mask": profile.masked,
            "empty": profile.emptied,
            "env": tuple(f"{name}={value}" for name, value in profile.environment.items()),
            "network": ("host" if profile.network else "none",),
            **({"join": (profile.joined,)} if profile.joined else {}),
            **({name: (place,) for name, place in asdict(layers).items()} if (layers := profile.layers) else {}),
            "namespaces": ("yes" if namespaces else "no",),
            "confines": ("yes" if profile.confines else "no",),
            "forward": ("no" if in_group else "yes",),
            "blank": (str(blank),),
            # Two commands with one profile have two files: each launcher removes its own.
            "nonce": (secrets.token_hex(8),),
        }
        if self._platform == "darwin":
            entries["seatbelt"] = (seatbelt_text(profile),)
        lines = [os.fsencode(f"{key}={value}") for key, values in entries.items() for value in values]
        data = b"\0".join([_VERSION, *lines])
        file = folder / f"{hashlib.sha256(data).hexdigest()}.profile"
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
        return ConfinedCommand((self._python, "-I", "-S", self._launcher(), str(file), "--", *command), file)

    def _launcher(self) -> str:
        """The launcher's file, compiled once: to compile it for each command takes half of the time of a start."""
        if self._python != sys.executable:
            return str(LAUNCHER)
        compiled = self._folder.resolve() / LAUNCHER.with_suffix(".pyc").name
        if not compiled.is_file():
            # Written in one step, so that no other command finds a part of it. Without what only people read.
            py_compile.compile(str(LAUNCHER), cfile=str(compiled), doraise=True, optimize=2)
        return str(compiled)

    def _find(self) -> Sandbox:
        if self._platform == "win32":
            return Sandbox(problem="Windows has no sandbox that pattern-acp can use.")
        if not self._python or not LAUNCHER.is_file():
            return Sandbox(problem="The launcher of the sandbox is not a file here, so nothing can be confined.")
        try:
            if self._platform == "darwin":
                problem = self._try(namespaces=False)
                return Sandbox(problem=problem) if problem else Sandbox("sandbox-exec")
            return self._find_on_linux()
        except OSError as error:
            return Sandbox(problem=f"The sandbox could not be tried: {error.strerror}.")

    def _find_on_linux(self) -> Sandbox:
        first = self._try(namespaces=True)
        if not first:
            return Sandbox("Landlock and namespaces", namespaces=True)
        second = self._try(namespaces=False)
        if not second:
            return Sandbox(
                "Landlock",
                problem=(
                    "The system allows no user namespaces, so credentials inside the folders of a session can be read, "
                    "git's hooks can be written, only TCP is cut, and before Linux 6.12 others can be signalled."
                ),
            )
        return Sandbox(problem=f"Nothing can confine commands here: {second}.")

    def _try(self, *, namespaces: bool) -> str:
        """Confine a shell that tries what it must not do; a phrase about what is wrong, empty when all is well."""
        inside = Path(self.temporary_folder("trial"))
        outside = self._folder.resolve() / "outside"
        outside.touch()
        profile = Profile(writable=(str(inside),))
        line = 'if (: > "$1") 2>/dev/null; then exit 3; fi; : > "$0"'
        command = ("/bin/sh", "-c", line, str(inside / "file"), str(outside))
        confined = self._prepare(profile, command, namespaces=namespaces, in_group=True)
        run = partial(
            subprocess.run,
            confined.arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=inside,
            env={"PATH": os.defpath},
            timeout=PROBE_SECONDS,
            check=False,
        )
        try:
            ended = run()
        except subprocess.TimeoutExpired:
            return "a trial did not end"
        finally:
            confined.remove()
        if ended.returncode == 0:
            return ""
        said = ended.stderr.decode("utf-8", "replace").strip().rpartition(": ")[2]
        return said or f"a trial ended with code {ended.returncode}"


def _let_go(holder: "subprocess.Popen[bytes]") -> None:
    for stream in (holder.stdin, holder.stdout):
        if stream is not None:
            stream.close()
    holder.kill()
    holder.wait()


def seatbelt_text(profile: Profile) -> str:
    """The profile in the language of macOS's `sandbox-exec`."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    lines += [f"(allow file-write* {_place(path)})" for path in profile.writable]
    lines += [f'(allow file-write* (literal "/dev/{name}"))' for name in ("null", "zero", "tty", "dtracehelper")]
    lines += [r'(allow file-write* (regex #"^/dev/(pty|tty)[a-z0-9]+$"))', '(allow file-ioctl (subpath "/dev"))']
    # The last rule that fits decides.
    lines += [f"(deny file-write* {_place(path)})" for path in profile.read_only]
    lines += [f"(deny file-write* (literal {_quoted(path)}))" for path in profile.pinned]
    lines += [f"(deny file-read* file-write* {_place(path)})" for path in (*profile.masked, *profile.emptied)]
    lines += ["(deny signal)", "(allow signal (target same-sandbox))", "(deny appleevent-send)"]
    if not profile.network:
        lines.append("(deny network*)")
    return "\n".join(lines)


def _place(path: str) -> str:
    return f"(subpath {_quoted(path)})"


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


_REFUSED = late_pattern(
    r"permission denied|operation not permitted|read-only file system|device or resource busy|"
    r"\b(?:EACCES|EPERM|EROFS|EBUSY)\b|PermissionError",
    re.IGNORECASE,
)
_NO_NETWORK = late_pattern(
    r"network is unreachable|could not resolve host\w*|temporary failure in name resolution|name or service not known|"
    r"failed to lookup address|nodename nor servname|\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b|no route to host",
    re.IGNORECASE,
)
_PATH = late_pattern(r"(?:~|\.{0,2})/[^\s'\"`:;,()\[\]<>]+|[\w.-]+(?:/[\w.-]+)+|\.[\w-][\w.-]*")
_ADDRESS = late_pattern(
    r"(?:host\w*:? |connect to |address |ENOTFOUND |EAI_AGAIN |access '?\w+://|//)'?([\w-]+(?:\.[\w-]+)+(?::\d+)?)",
    re.IGNORECASE,
)
_MOST_LINES = 200


def stopped_by_sandbox(output: str, profile: Profile, cwd: str) -> str:
    """Tell in a sentence what the sandbox refused to a command that failed, as far as its output shows; else empty.

    A path counts only when the profile refuses it and the user could reach it; blocks to look at the disk.
    """
    for line in output.splitlines()[-_MOST_LINES:]:
        if not profile.network and _NO_NETWORK.search(line):
            address = _ADDRESS.search(line)
            where = f" ({address[1]})" if address is not None else ""
            return f"The sandbox has no network{where}."
        if _REFUSED.search(line):
            for named in _PATH.findall(line):
                path = os.path.realpath(os.path.join(cwd, os.path.expanduser(named)))
                if verb := _refuses(profile, path):
                    return f"The sandbox does not let commands {verb} {path}."
    return ""


def _refuses(profile: Profile, path: str) -> str:
    """The verb for what a profile refuses at a path, and the user may; empty for nothing."""
    if _is_below(path, (*profile.masked, *profile.emptied)):
        return "read"
    is_fixed = path in profile.pinned or _is_below(path, profile.read_only)
    if (_is_below(path, profile.writable) and not is_fixed) or path.startswith(("/dev/", "/proc/", "/sys/")):
        return ""
    place = path if os.path.exists(path) else os.path.dirname(path)
    return "write" if os.access(place, os.W_OK) else ""


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
