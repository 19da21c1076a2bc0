"""The short built-in list of commands that ask even in `auto`, each with the reason (issue 2 section 9).

Owns: the list. Must not know: grants, modes, roots. The list is a seat belt, not a sandbox: a program that the agent
wrote itself can do all of this unseen, which is why `auto` is never the default.
"""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from pattern_acp.policy.arguments import has_option
from pattern_acp.policy.command_line import CommandLine, SimpleCommand
from pattern_acp.policy.destructive_git import git_reason
from pattern_acp.policy.program_tables import INTERPRETERS, SHELLS
from pattern_acp.policy.programs import effective_commands, program_name


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


class _Rule(Struct, frozen=True):
    """Programs, which of their calls match, and the reason as the end of a sentence that starts with the command."""

    programs: frozenset[str]
    matches: Callable[[Sequence[str]], bool]
    reason: str


def destructive_reason(line: CommandLine, *, windows: bool = False) -> str | None:
    """Why a line is on the list, as one sentence; None when it is not."""
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
    for rule in _RULES:
        if name in rule.programs and rule.matches(arguments):
            return f"`{name}` {rule.reason}"
    return None


def _always(_: Sequence[str]) -> bool:
    return True


def _options(letters: str, *names: str) -> Callable[[Sequence[str]], bool]:
    return lambda arguments: has_option(arguments, letters, *names)


def _words(*phrases: str) -> Callable[[Sequence[str]], bool]:
    """Matches when all the words of one phrase are among the arguments, in any place."""
    return lambda arguments: any(
        all(any(word == wanted or word.startswith(f"{wanted}=") for word in arguments) for wanted in phrase.split())
        for phrase in phrases
    )


def _switches(*switches: str) -> Callable[[Sequence[str]], bool]:
    """Matches Windows switches and PowerShell parameters, which ignore case and may be shortened."""
    return lambda arguments: any(
        argument.casefold() == switch or (len(argument) > 2 and switch.startswith(argument.casefold()))
        for argument in arguments
        for switch in switches
    )


def _kills_all(arguments: Sequence[str]) -> bool:
    return "-1" in arguments[1:]


def _rule(programs: str, matches: Callable[[Sequence[str]], bool], reason: str) -> _Rule:
    return _Rule(frozenset(programs.split()), matches, reason)


_RULES = (
    _Rule(_PRIVILEGED, _always, "runs a command with the rights of another user."),
    _Rule(_POWER, _always, "stops or restarts the machine."),
    _Rule(_DISKS, _always, "overwrites files or disks below the file system."),
    _rule(
        "rm", _options("rRf", "recursive", "force", "no-preserve-root"), "deletes folders or deletes without asking."
    ),
    _rule("find fd fdfind", _words("-delete", "-exec rm", "-execdir rm", "-x rm", "-X rm"), "deletes all it finds."),
    _rule("xargs parallel", _words("rm", "unlink", "shred"), "deletes all the files named by its input."),
    _rule("truncate", _always, "cuts files off."),
    _rule(
        "chmod chown chgrp setfacl chattr icacls takeown", _options("R", "recursive"), "changes rights of a whole tree."
    ),
    _rule("icacls takeown", _switches("/t", "/r"), "changes rights of a whole tree."),
    _rule("kill", _kills_all, "can end every process of the user."),
    _rule("killall pkill killall5 taskkill", _always, "ends processes by name."),
    _rule("crontab", _options("r"), "removes all planned jobs."),
    _rule("rsync", _options("", "delete", "delete-after", "remove-source-files"), "deletes files at the target."),
    _rule(
        "systemctl service launchctl sc",
        _words("stop", "disable", "mask", "kill", "unload", "delete"),
        "stops services.",
    ),
    _rule("userdel groupdel deluser passwd usermod visudo", _always, "changes the users of the machine."),
    _rule("iptables ip6tables nft ufw", _always, "changes the firewall."),
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
    _rule("dropdb dropuser", _always, "deletes a database or its user."),
    _rule(
        "redis-cli",
        lambda arguments: any(word.casefold() in {"flushall", "flushdb"} for word in arguments),
        "empties a database.",
    ),
    _rule(
        "mongosh mongo",
        lambda arguments: any("drop" in word for word in arguments),
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
        lambda arguments: any(
            re.match(r"(?:rm|rb|delete|terminate|destroy|purge|deregister)", word) for word in arguments
        ),
        "deletes things in the cloud.",
    ),
    _rule("del erase rd rmdir", _switches("/s", "/q", "/f"), "deletes folders or deletes without asking."),
    _rule(
        "remove-item ri rm del erase rd rmdir",
        _switches("-recurse", "-force"),
        "deletes folders or deletes without asking.",
    ),
    _rule("reg", _words("delete"), "deletes settings of the machine."),
    _rule("defaults", _words("delete"), "deletes settings of the person."),
    _rule("history", _options("c"), "deletes the shell's history."),
    _Rule(_DATABASES, lambda arguments: any(_SQL.search(word) for word in arguments), "deletes data in a database."),
)
