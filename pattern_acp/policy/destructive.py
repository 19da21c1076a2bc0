"""Commands that destroy and therefore ask even in `auto`, each with the reason (issue 2 section 9).

Owns: the short built-in list, and that of git's subcommands. Must not know: grants, modes, roots. The list is a seat
belt, not a sandbox: a program that the agent wrote itself can do all of this unseen, which is why `auto` is never the
default.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from pattern_acp.policy.commands import CommandLine, SimpleCommand
from pattern_acp.policy.programs import INTERPRETERS, SHELLS, effective_commands, program_name

_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
)
_DISCARDS = "It throws away work that git may not be able to bring back."
_OVERWRITES = "It changes or deletes history that other people share."
_RUNS = "With this, git runs other programs."


def git_reason(arguments: Sequence[str]) -> str | None:
    """Return why a call of git is on the list, if it is. `arguments` come without the word `git`."""
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
    """Return git's subcommand and its arguments, without the options before it; "" when there is none."""
    rest = _split(arguments)[1]
    return (rest[0], tuple(rest[1:])) if rest else ("", ())


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the options before git's subcommand from the subcommand with its own arguments."""
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


def _runsalways(_: Sequence[str]) -> str | None:
    return _RUNS


def _discardsalways(_: Sequence[str]) -> str | None:
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
    "branch": _branch, "tag": _tag, "stash": _stash, "reflog": _reflog, "gc": _gc, "prune": _discardsalways,
    "update-ref": _update_ref, "worktree": _worktree, "rm": _remove, "config": _config, "submodule": _submodule,
    "bisect": _bisect, "rebase": _rebase, "remote": _remote, "difftool": _runsalways, "mergetool": _runsalways,
    "send-email": _runsalways, "daemon": _runsalways, "shell": _runsalways,
}  # fmt: skip
"""Tests by git subcommand."""


def has_option(arguments: Sequence[str], letters: str, *names: str) -> bool:
    """Return whether a short option of `letters` or a long one of `names`, in full or shortened, is there."""
    for argument in arguments:
        if argument.startswith("--"):
            given = argument[2:].split("=", 1)[0]
            if given and any(name.startswith(given) for name in names):
                return True
        elif argument.startswith("-") and any(letter in argument[1:] for letter in letters):
            return True
    return False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DEVICE = re.compile(r"/dev/(?!null$|stdout$|stderr$|stdin$|tty$|fd/)|\\\\\.\\", re.IGNORECASE)
_SQL = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|index|view|user|role)|truncate\s+(?:table\s+)?\w+|delete\s+from)\b",
    re.IGNORECASE,
)
_DOWNLOADERS = frozenset({"curl", "wget", "fetch", "http", "https", "aria2c", "nc", "ncat", "iwr", "invoke-webrequest"})
_PRIVILEGED = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "run0", "gsudo", "runas", "chroot"})
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff", "init", "telinit", "stop-computer", "restart-computer"})
_DISKS = _names(
    "dd fdisk sfdisk cfdisk gdisk sgdisk parted wipefs shred blkdiscard mkswap format diskpart diskutil hdparm "
    "badblocks cryptsetup lvremove vgremove pvremove zpool zfs btrfs"
)
_DATABASES = _names(
    "psql mysql mariadb sqlite3 sqlcmd sqlplus clickhouse-client duckdb bq mycli pgcli litecli cockroach"
)


class CommandRule(Struct, frozen=True):
    """Programs, which of their calls match, and the reason as the end of a sentence that starts with the command."""

    programs: frozenset[str]
    matches: Callable[[SimpleCommand], bool]
    reason: str


def first_reason(rules: Sequence[CommandRule], command: SimpleCommand) -> str | None:
    """Return the sentence of the first rule that matches a command."""
    name = program_name(command.words[0])
    for rule in rules:
        if name in rule.programs and rule.matches(command):
            return f"`{name}` {rule.reason}"
    return None


def always(_: SimpleCommand) -> bool:
    """Match every call of a program."""
    return True


def destructive_reason(line: CommandLine, *, windows: bool = False) -> str | None:
    """Return why a line is on the list, as one sentence, if it is."""
    for redirection in line.redirections:
        if redirection.writes and _DEVICE.match(redirection.target):
            return "It writes to a device, which can destroy a disk."
    commands = effective_commands(line, windows=windows)
    for command in commands:
        reason = _command_reason(command) if command.words else None
        if reason is not None:
            return reason
    return _pipe_reason(commands)


def _pipe_reason(commands: Sequence[SimpleCommand]) -> str | None:
    named = [(program_name(command.words[0]), command) for command in commands if command.words]
    downloads = any(name in _DOWNLOADERS for name, _ in named)
    for name, command in named:
        if command.piped and (name in SHELLS or (downloads and name in INTERPRETERS)) and name not in {"sed", "awk"}:
            return f"It feeds text to `{name}`, which runs whatever arrives."
        if downloads and name in SHELLS | {"eval", "source", "."} and command.changing:
            return f"It downloads text and hands it to `{name}`, which runs whatever arrives."
    return None


def _command_reason(command: SimpleCommand) -> str | None:
    name, arguments = program_name(command.words[0]), command.words[1:]
    if name == "git":
        return git_reason(arguments)
    if name.startswith(("mkfs", "newfs")):
        return f"`{name}` erases a disk."
    return first_reason(_RULES, command)


def _options(letters: str, *names: str) -> Callable[[SimpleCommand], bool]:
    return lambda command: has_option(command.words[1:], letters, *names)


def _words(*phrases: str) -> Callable[[SimpleCommand], bool]:
    """Match calls that have all the words of one phrase among their arguments, in any order."""
    return lambda command: any(
        all(
            any(word == wanted or word.startswith(f"{wanted}=") for word in command.words[1:])
            for wanted in phrase.split()
        )
        for phrase in phrases
    )


def _any_word(matches: Callable[[str], object]) -> Callable[[SimpleCommand], bool]:
    return lambda command: any(matches(word) for word in command.words[1:])


def _switches(*switches: str) -> Callable[[SimpleCommand], bool]:
    """Match Windows switches and PowerShell parameters, which ignore case and may be shortened."""
    return _any_word(
        lambda word: any(
            word.casefold() == switch or (len(word) > 2 and switch.startswith(word.casefold())) for switch in switches
        )
    )


def _rule(programs: str, matches: Callable[[SimpleCommand], bool], reason: str) -> CommandRule:
    return CommandRule(frozenset(programs.split()), matches, reason)


_RULES = (
    CommandRule(_PRIVILEGED, always, "runs a command with the rights of another user."),
    CommandRule(_POWER, always, "stops or restarts the machine."),
    CommandRule(_DISKS, always, "overwrites files or disks below the file system."),
    _rule(
        "rm", _options("rRf", "recursive", "force", "no-preserve-root"), "deletes folders or deletes without asking."
    ),
    _rule("find fd fdfind", _words("-delete", "-exec rm", "-execdir rm", "-x rm", "-X rm"), "deletes all it finds."),
    _rule("xargs parallel", _words("rm", "unlink", "shred"), "deletes all the files named by its input."),
    _rule("truncate", always, "cuts files off."),
    _rule(
        "chmod chown chgrp setfacl chattr icacls takeown", _options("R", "recursive"), "changes rights of a whole tree."
    ),
    _rule("icacls takeown", _switches("/t", "/r"), "changes rights of a whole tree."),
    _rule("kill", lambda command: "-1" in command.words[2:], "can end every process of the user."),
    _rule("killall pkill killall5 taskkill", always, "ends processes by name."),
    _rule("crontab", _options("r"), "removes all planned jobs."),
    _rule("rsync", _options("", "delete", "delete-after", "remove-source-files"), "deletes files at the target."),
    _rule(
        "systemctl service launchctl sc",
        _words("stop", "disable", "mask", "kill", "unload", "delete"),
        "stops services.",
    ),
    _rule("userdel groupdel deluser passwd usermod visudo", always, "changes the users of the machine."),
    _rule("iptables ip6tables nft ufw", always, "changes the firewall."),
    _rule(
        "npm pnpm yarn", _words("publish", "unpublish", "deprecate", "npm publish"), "publishes or withdraws a package."
    ),
    _rule("twine", _words("upload"), "publishes a package."),
    _rule(
        "uv poetry hatch pdm flit cargo bun lerna jsr", _words("publish", "yank"), "publishes or withdraws a package."
    ),
    _rule("gem", _words("push", "yank"), "publishes or withdraws a package."),
    _rule("mvn gradle", _words("deploy", "publish"), "publishes a package."),
    _rule(
        "docker podman nerdctl",
        _words("prune", "volume rm", "rmi", "push", "rm -f", "down -v", "down --volumes"),
        "removes containers, images or volumes, or publishes an image.",
    ),
    _rule("docker-compose", _words("down -v", "down --volumes", "rm"), "removes containers or volumes."),
    _rule(
        "terraform tofu pulumi cdk cdktf sst serverless sls",
        _words("destroy", "apply", "up", "deploy", "remove"),
        "changes or removes real infrastructure.",
    ),
    _rule(
        "kubectl oc", _words("delete", "drain", "replace --force", "scale"), "removes or stops workloads of a cluster."
    ),
    _rule("helm", _words("uninstall", "delete", "rollback"), "removes a release from a cluster."),
    _rule(
        "gh glab",
        _words("delete", "repo archive", "release create", "pr merge"),
        "changes or deletes things for everybody.",
    ),
    _rule(
        "vercel netlify fly flyctl heroku wrangler firebase",
        _words("deploy", "destroy", "remove", "rm", "apps:destroy", "pg:reset", "--prod"),
        "changes what is deployed.",
    ),
    _rule("dropdb dropuser", always, "deletes a database or its user."),
    _rule(
        "redis-cli",
        _any_word(lambda word: word.casefold() in {"flushall", "flushdb"}),
        "empties a database.",
    ),
    _rule(
        "mongosh mongo",
        _any_word(lambda word: "drop" in word),
        "deletes a database or collection.",
    ),
    _rule(
        "rails rake artisan php manage.py django-admin",
        _words("db:drop", "db:reset", "migrate:fresh", "migrate:reset", "flush", "reset_db"),
        "empties a database.",
    ),
    _rule("python", _words("flush", "-m twine upload", "reset_db"), "empties a database or publishes a package."),
    _rule("prisma", _words("reset", "push --force-reset"), "empties a database."),
    _rule(
        "aws gcloud az gsutil s3cmd doctl",
        _any_word(re.compile(r"(?:rm|rb|delete|terminate|destroy|purge|deregister)").match),
        "deletes things in the cloud.",
    ),
    _rule("del erase rd rmdir", _switches("/s", "/q", "/f"), "deletes folders or deletes without asking."),
    _rule(
        "remove-item ri rm del erase rd rmdir",
        _switches("-recurse", "-force"),
        "deletes folders or deletes without asking.",
    ),
    _rule("reg", _words("delete"), "deletes settings of the machine."),
    _rule("defaults", _words("delete"), "deletes settings of the user."),
    _rule("history", _options("c"), "deletes the shell's history."),
    CommandRule(_DATABASES, _any_word(_SQL.search), "deletes data in a database."),
)
