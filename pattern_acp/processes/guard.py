"""The end of our children when we are killed and cannot do it ourselves (POSIX).

Owns: a small shell that reads from a pipe of ours which process groups to watch. The system closes the pipe however we
end, and then the shell ends the groups that it still watches. It is started with the first of them, in a session of its
own, so that no signal of a terminal reaches it. Must not know: what runs in the groups.

One for the whole process: children belong to the process, whichever session started them. A signal of the system at the
parent's death (`PR_SET_PDEATHSIG`) would be Linux's alone, meet only the first process of a group, and come when the
thread ends that started it.
"""

import atexit
import logging
import os
import subprocess
import sys
from contextlib import suppress

logger = logging.getLogger(__name__)

GRACE_SECONDS = 1
"""Time between asking a group to end and killing it; `sleep` takes whole seconds everywhere (POSIX)."""

_SCRIPT = f"""
trap '' HUP INT TERM
groups=
while read -r word group; do
    if [ "$word" = watch ]; then
        groups="$groups $group"
    else
        kept=
        for each in $groups; do
            [ "$each" = "$group" ] || kept="$kept $each"
        done
        groups=$kept
    fi
done
[ -n "$groups" ] || exit 0
for each in $groups; do kill -TERM "-$each"; done
sleep {GRACE_SECONDS}
for each in $groups; do kill -KILL "-$each"; done
"""

_END_SECONDS = 1.0


class Guard:
    """The groups that end with this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """End `group` when this process ends, in whatever way. Without a guard it only logs."""
        self._groups.add(group)
        self._tell("watch", group)

    def forget(self, group: int) -> None:
        """Stop watching `group`: it has ended, and its number may be reused."""
        if group in self._groups:
            self._groups.remove(group)
            self._tell("forget", group)

    def close(self) -> None:
        """End the groups that are still watched, and then the guard; does not wait if it has something to end."""
        shell, self._shell = self._shell, None
        if shell is not None:
            _close_pipe(shell)
            if not self._groups:
                with suppress(subprocess.TimeoutExpired):
                    shell.wait(_END_SECONDS)

    def _tell(self, word: str, group: int) -> None:
        if sys.platform == "win32":
            return
        if self._shell is not None and self._shell.poll() is None:
            self._write(self._shell, f"{word} {group}\n")
        elif self._groups:
            # It was never needed, or somebody ended it.
            self._start()

    def _start(self) -> None:
        if self._shell is None:
            atexit.register(self.close)
        else:
            _close_pipe(self._shell)
        try:
            self._shell = subprocess.Popen(  # noqa: S603  # a script of ours
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            logger.warning("nothing ends the children if this process is killed: %s", error.strerror)
            return
        if self._shell.stdin is not None:
            # A stopped guard must not stop us.
            os.set_blocking(self._shell.stdin.fileno(), False)
        self._write(self._shell, "".join(f"watch {each}\n" for each in sorted(self._groups)))

    def _write(self, shell: "subprocess.Popen[bytes]", lines: str) -> None:
        try:
            if shell.stdin is not None:
                shell.stdin.write(lines.encode("ascii"))
        except OSError as error:
            logger.warning("the guard of the children takes no words: %s", error.strerror)


def _close_pipe(shell: "subprocess.Popen[bytes]") -> None:
    if shell.stdin is not None:
        with suppress(OSError):
            shell.stdin.close()


GUARD = Guard()
"""The guard of this process."""
