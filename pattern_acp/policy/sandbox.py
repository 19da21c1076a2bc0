"""The sandbox of a session's commands: what they may write, what they must not read.

Owns: the profile of a session, made of its folders and of what is on the disk now; a folder that did not change is not
read again. Must not know: how a profile is applied (`processes.confinement`), or when it is. Everything here blocks:
call it in a thread.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pattern_acp.policy.paths import Protection, is_inside, is_inside_any, protection_of_names
from pattern_acp.processes.confinement import Confinement, Profile

MOST_LOOKED_AT = 20_000
"""Most entries of the session's folders that are looked at for one command; about 50 ms."""

MOST_LEVELS = 6
"""Deepest folder that is looked at."""

_UNSEARCHED = frozenset(
    {"node_modules", ".venv", "venv", "site-packages", "target", "__pycache__", ".tox", ".nox", ".mypy_cache",
     ".pytest_cache", ".ruff_cache", ".gradle", ".next", ".cache", "vendor", "bower_components"}
)  # fmt: skip
"""Folders of what programs installed or built: large, and without anybody's credentials."""

_CREDENTIALS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".config/gh", ".config/glab-cli", ".config/hub",
    ".config/gcloud", ".config/op", ".config/sops", ".config/rclone", ".config/git/credentials", ".vault-token",
    ".terraform.d", ".terraformrc", ".local/share/keyrings", ".local/share/kwalletd", "Library/Keychains", ".pki",
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox", "Library/Cookies",
    ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history",
    ".local/share/fish/fish_history", ".codex/auth.json", ".claude/.credentials.json", ".gemini/oauth_creds.json",
)  # fmt: skip
"""Places below a home that hold credentials, or what was typed."""

_CREDENTIALS_IN_SETTINGS = (
    ".netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".docker/config.json",
    ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".yarnrc.yml",
)  # fmt: skip
"""Files that programs read at each start, and fail when they may not: they read as empty."""

_SETTINGS_IN_PROJECTS = frozenset({".npmrc", ".pypirc", ".netrc", "_netrc"})

_SOCKETS = (
    "/run/docker.sock", "/run/podman", "/run/containerd", "/run/dbus", "/run/systemd/private", "/run/libvirt",
    "/run/lxd.socket", "/run/snapd.socket", "/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket", "/tmp/.X11-unix",
    "/tmp/.ICE-unix",
)  # fmt: skip
"""Sockets by which a command could have something started outside: no sandbox of files and networks covers them."""

_MOST_SOCKETS = 200


class SandboxFolders(Struct, frozen=True):
    """The folders that a profile is made of; absolute."""

    home: str
    own: tuple[str, ...] = ()
    """Folders of our own data, configuration, logs and caches."""
    writable: tuple[str, ...] = ()
    """Folders beside the session's that commands may write; `~/` is `home`."""


class Sandboxing(Struct, frozen=True):
    """The means to confine commands of this process."""

    confinement: Confinement
    folders: SandboxFolders
    environment: Mapping[str, str]


def session_profile(
    roots: Sequence[str],
    folders: SandboxFolders,
    environment: Mapping[str, str],
    *,
    temporary: str,
    network: bool,
) -> Profile:
    """The profile of a command of a session with these resolved roots; `temporary` is its private folder."""
    home = os.path.realpath(folders.home)
    looked_at = [_Repository.around(root) for root in roots]
    masked, emptied, fixed, pinned = list[str](), list[str](), list[str](), list[str]()
    writable = [*roots, temporary]
    for root in roots:
        for path, name, is_folder in _entries(root):
            # A folder called `credentials` is a module; what it is called for may be in it.
            guard = protection_of_names((name, "file") if is_folder else (name,))
            if name in _SETTINGS_IN_PROJECTS:
                emptied.append(path)
            elif guard is None:
                continue
            elif guard.for_reading:
                masked.append(path)
            elif name == ".git":
                looked_at.append(_Repository.at(path))
            else:
                fixed.append(path)
    masked += _other_names(roots, masked)
    for repository in looked_at:
        fixed += repository.fixed
        pinned += repository.pinned
        writable += [path for path in repository.folders if not is_inside_any(path, roots)]
    for each in folders.writable:
        path = os.path.realpath(os.path.join(home, each[2:]) if each.startswith("~/") else each)
        if os.path.isdir(path) and not is_inside(home, path):
            writable.append(path)
    masked += _credentials(home, roots, folders.own)
    masked += _sockets(environment, (*roots, temporary), network=network)
    emptied += [os.path.join(home, name) for name in _CREDENTIALS_IN_SETTINGS]
    return Profile(
        writable=_unique(writable),
        pinned=_unique(pinned),
        read_only=_unique(_existing(fixed)),
        masked=tuple(path for path in _unique(_existing(masked)) if not any(is_inside(root, path) for root in roots)),
        emptied=_unique(_existing(emptied)),
        network=network,
        environment={"TMPDIR": temporary},
    )


class _Repository(Struct, frozen=True):
    """The git folders of one work tree, and what in them runs programs."""

    folders: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()

    @classmethod
    def around(cls, root: str) -> "_Repository":
        """The repository that a root lies in, when it is not the root's own."""
        for folder in Path(root).parents:
            if (folder / ".git").is_dir():
                return cls.at(str(folder / ".git"))
        return cls()

    @classmethod
    def at(cls, path: str) -> "_Repository":
        """The repository of a `.git`, folder or file."""
        if os.path.isdir(path) and not os.path.islink(path):
            return cls._of_folder(path)
        linked = _linked_folder(path)
        if linked is None:
            return cls((), (path,))
        common = os.path.realpath(os.path.join(linked, _first_line(os.path.join(linked, "commondir")) or "."))
        inner = cls._of_folder(common)
        return cls((common, linked), (path, *inner.fixed), inner.pinned)

    @classmethod
    def _of_folder(cls, path: str) -> "_Repository":
        modules = [folder for folder, names, _ in os.walk(os.path.join(path, "modules")) if "objects" in names][:50]
        folders = [path, *modules]
        for folder in folders:
            if os.path.isfile(os.path.join(folder, "HEAD")):
                # Where there is none yet, a command could make one, unless we cannot.
                with suppress(OSError):
                    Path(folder, "hooks").mkdir(exist_ok=True)
        names = ("hooks", "config", "config.worktree", "info/attributes")
        fixed = tuple(os.path.join(folder, name) for folder in folders for name in names)
        return cls((path,), fixed, tuple(folders))


def _linked_folder(file: str) -> str | None:
    """The git folder that a `.git` file names, if that folder names the file, too: a command may write the file."""
    said = _first_line(file).removeprefix("gitdir:").strip()
    folder = os.path.realpath(os.path.join(os.path.dirname(file), said)) if said else ""
    if not said or not os.path.isfile(os.path.join(folder, "HEAD")):
        return None
    back = _first_line(os.path.join(folder, "gitdir"))
    return folder if back and os.path.realpath(back) == os.path.realpath(file) else None


def _first_line(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.readline(4_096).strip()
    except OSError:
        return ""


class _Folder(Struct, frozen=True):
    """A folder as it was looked at: when it changed last, its entries that matter, and its folders to look into."""

    changed_ns: int
    count: int
    entries: tuple[tuple[str, str, bool], ...]
    """Name, the name that it is protected by (another one of the same file, or its own), and whether it is a folder."""
    folders: tuple[str, ...]


SETTLED_NS = 2_000_000_000
"""Age of a folder's last change from which on a later one surely has another time, also on coarse file systems."""

_MOST_FOLDERS = 20_000
_LOOKED_AT: dict[str, _Folder] = {}
"""Folders as they were looked at last, of all sessions: a command changes few of them."""


def _entries(root: str) -> Iterator[tuple[str, str, bool]]:
    """The files and folders of a root that matter, as far as they are looked at: path, protected name, if a folder."""
    for path, folder in _folders(root):
        yield from ((os.path.join(path, name), known_as, is_folder) for name, known_as, is_folder in folder.entries)


def _other_names(roots: Sequence[str], secret: Sequence[str]) -> Iterator[str]:
    """The names in other folders of the roots that `secret` files have; looked for only where a file has more names."""
    left = dict[tuple[int, int], int]()
    for path in secret:
        with suppress(OSError):
            facts = os.lstat(path)
            if stat.S_ISREG(facts.st_mode):
                file = (facts.st_dev, facts.st_ino)
                left[file] = left.get(file, facts.st_nlink) - 1
    wanted = {file for file, count in left.items() if count > 0}
    for root in roots if wanted else ():
        for path, _ in _folders(root):
            with suppress(OSError), os.scandir(path) as found:
                device = os.stat(path).st_dev
                yield from (entry.path for entry in found if (device, entry.inode()) in wanted)


def _folders(root: str) -> Iterator[tuple[str, _Folder]]:
    """The folders of a root, as far as they are looked at."""
    waiting: list[tuple[str, ...]] = [()]
    left = MOST_LOOKED_AT
    while waiting and left > 0:
        names = waiting.pop(0)
        path = os.path.join(root, *names)
        try:
            folder = _looked_at(path)
        except OSError:
            continue
        left -= folder.count
        yield path, folder
        if len(names) + 1 < MOST_LEVELS:
            waiting += [(*names, name) for name in folder.folders]


def _looked_at(path: str) -> _Folder:
    """The folder as it is now; it is read again only if its time says that an entry came or went."""
    changed_ns = os.stat(path).st_ctime_ns  # which nobody can set
    known = _LOOKED_AT.get(path)
    if known is not None and known.changed_ns == changed_ns:
        return known
    entries: list[tuple[str, str, bool]] = []
    files: list[tuple[int, str]] = []
    secret: dict[int, str] = {}
    folders: list[str] = []
    count = 0
    with os.scandir(path) as found:
        for entry in found:
            count += 1
            is_folder = entry.is_dir(follow_symlinks=False)
            matters = entry.name in _SETTINGS_IN_PROJECTS or protection_of_names(
                (entry.name, "file") if is_folder else (entry.name,)
            )
            if matters:
                entries.append((entry.name, entry.name, is_folder))
                if isinstance(matters, Protection) and matters.for_reading and not is_folder:
                    secret[entry.inode()] = entry.name
            elif not is_folder:
                files.append((entry.inode(), entry.name))
            if is_folder and _is_searched(entry.name):
                folders.append(entry.name)
    # Hard links: the same file under a name that does not show what it is.
    entries += [(name, secret[inode], False) for inode, name in files if inode in secret] if secret else []
    folder = _Folder(changed_ns, count, tuple(entries), tuple(folders))
    if time.time_ns() - changed_ns > SETTLED_NS:
        if len(_LOOKED_AT) >= _MOST_FOLDERS:
            _LOOKED_AT.clear()
        _LOOKED_AT[path] = folder
    return folder


def _is_searched(name: str) -> bool:
    # All of a protected folder is protected already.
    return name not in _UNSEARCHED and protection_of_names((name, "file")) is None


def _credentials(home: str, roots: Sequence[str], own: Iterable[str]) -> list[str]:
    homes = {
        home,
        *_own_homes(),
        *(os.path.join("/home", root.split("/")[2]) for root in roots if root.startswith("/home/")),
    }
    found = [os.path.join(each, name) for each in sorted(homes) for name in _CREDENTIALS]
    found += own
    for folder in ("/home", "/Users"):
        try:
            others = [os.path.join(folder, name) for name in os.listdir(folder) if name != "Shared"]
        except OSError:
            continue
        found += [path for path in others if path not in homes]
    return [*found, *([] if any(is_inside(each, "/root") for each in homes) else ["/root"])]


def _own_homes() -> tuple[str, ...]:
    """The home that the system knows for this user, where it is another than `HOME` says."""
    try:
        import pwd
    except ImportError:
        return ()
    try:
        return (os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir),)
    except KeyError:
        return ()


def _sockets(environment: Mapping[str, str], inside: Sequence[str], *, network: bool) -> list[str]:
    found: list[str] = [*_SOCKETS]
    if hasattr(os, "getuid"):
        found.append(f"/run/user/{os.getuid()}")
    found += [path for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR") if (path := environment.get(name))]
    bus = environment.get("DBUS_SESSION_BUS_ADDRESS", "").partition("path=")[2].partition(",")[0]
    docker = environment.get("DOCKER_HOST", "").partition("unix://")[2]
    found += [path for path in (bus, docker) if path]
    if not network:
        found += [path for path in _listening() if not is_inside_any(path, inside)]
    return found


def _listening() -> list[str]:
    """The paths of sockets on which somebody listens (Linux)."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "surrogateescape").splitlines()[1:]
    except OSError:
        return []
    fields = [line.split(maxsplit=7) for line in lines]
    # The flag SO_ACCEPTCON marks those that listen (proc(5)).
    paths = {each[7] for each in fields if len(each) == 8 and each[3] == "00010000" and each[7].startswith("/")}
    return sorted(paths)[:_MOST_SOCKETS]


def _existing(paths: Iterable[str]) -> list[str]:
    return [os.path.realpath(path) for path in paths if os.path.lexists(path)]


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
