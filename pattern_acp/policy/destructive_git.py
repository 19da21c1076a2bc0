"""The git commands that ask even in `auto`: those that discard work, rewrite what others have, or run other programs.

Owns: git's part of the built-in list. Must not know: grants, modes, roots.
"""

import re
from collections.abc import Sequence

from pattern_acp.policy.arguments import has_option

_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
)
_DISCARDS = "It throws away work that git may not be able to bring back."
_OVERWRITES = "It changes or deletes history that other people share."
_RUNS = "With this, git runs other programs."


def git_reason(arguments: Sequence[str]) -> str | None:
    """Why a call of git is on the list; None when it is not. `arguments` come without the word `git`."""
    settings, rest = _split(arguments)
    if any(re.match(r"-c|--exec-path=|--config-env|--upload-pack", setting) for setting in settings):
        return "It gives git settings on the command line, which can make it run other programs."
    if not rest:
        return None
    name, options = rest[0], rest[1:]
    if name in {"filter-branch", "filter-repo", "replace"}:
        return _OVERWRITES
    test = _TESTS.get(name)
    return test(options) if test is not None else None


def git_command(arguments: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Git's command and its own arguments, without the options before it; "" when there is none."""
    rest = _split(arguments)[1]
    return (rest[0], tuple(rest[1:])) if rest else ("", ())


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options before git's command, and the command with its own arguments."""
    settings: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        settings.append(option)
        if option in _WITH_VALUE and rest:
            rest.pop(0)
    return settings, rest


def _push(options: Sequence[str]) -> str | None:
    forced = has_option(options, "fd", "force", "force-with-lease", "force-if-includes", "delete", "mirror", "prune")
    return _OVERWRITES if forced or any(option.startswith(("+", ":")) for option in options) else None


def _reset(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "", "hard", "merge", "keep") else None


def _clean(options: Sequence[str]) -> str | None:
    return None if has_option(options, "n", "dry-run") and not has_option(options, "f", "force") else _DISCARDS


def _checkout(options: Sequence[str]) -> str | None:
    discards = "--" in options or "." in options or has_option(options, "fB", "force")
    return _DISCARDS if discards or any(option.startswith(("./", ":/", "*")) for option in options) else None


def _restore(options: Sequence[str]) -> str | None:
    only_index = has_option(options, "S", "staged") and not has_option(options, "W", "worktree")
    return None if only_index else _DISCARDS


def _switch(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "fC", "force", "discard-changes", "force-create") else None


def _branch(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "DMCdf", "delete", "force") else None


def _tag(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "df", "delete", "force") else None


def _stash(options: Sequence[str]) -> str | None:
    return _DISCARDS if options and options[0] in {"drop", "clear"} else None


def _reflog(options: Sequence[str]) -> str | None:
    return _DISCARDS if options and options[0] in {"expire", "delete"} else None


def _gc(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "", "prune", "aggressive") else None


def _update_ref(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "d", "stdin") else None


def _worktree(options: Sequence[str]) -> str | None:
    return _DISCARDS if options and options[0] in {"remove", "prune"} else None


def _remove(options: Sequence[str]) -> str | None:
    return _DISCARDS if has_option(options, "rf", "force") else None


def _config(options: Sequence[str]) -> str | None:
    reads = has_option(options, "l", "get", "get-all", "get-regexp", "list", "get-urlmatch") or options[:1] in (
        ["get"],
        ["list"],
    )
    return None if reads else "It changes git's settings, which can make git run other programs."


def _runs_always(_: Sequence[str]) -> str | None:
    return _RUNS


def _discards_always(_: Sequence[str]) -> str | None:
    return _DISCARDS


def _submodule(options: Sequence[str]) -> str | None:
    return _RUNS if "foreach" in options else _DISCARDS if "deinit" in options else None


def _bisect(options: Sequence[str]) -> str | None:
    return _RUNS if options[:1] == ["run"] else None


def _rebase(options: Sequence[str]) -> str | None:
    return _RUNS if has_option(options, "x", "exec") else None


def _remote(options: Sequence[str]) -> str | None:
    changes = options and options[0] in {"set-url", "remove", "rm", "add"}
    return "It changes where git sends and gets its commits." if changes else None


_TESTS = {
    "push": _push, "reset": _reset, "clean": _clean, "checkout": _checkout, "restore": _restore, "switch": _switch,
    "branch": _branch, "tag": _tag, "stash": _stash, "reflog": _reflog, "gc": _gc, "prune": _discards_always,
    "update-ref": _update_ref, "worktree": _worktree, "rm": _remove, "config": _config, "submodule": _submodule,
    "bisect": _bisect, "rebase": _rebase, "remote": _remote, "difftool": _runs_always, "mergetool": _runs_always,
    "send-email": _runs_always, "daemon": _runs_always, "shell": _runs_always,
}  # fmt: skip
"""Tests by git's command."""
