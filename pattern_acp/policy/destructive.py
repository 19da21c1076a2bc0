"""Commands that destroy and therefore ask even in `auto`, each with the reason (issue 2 section 9).

Owns: the short built-in list, and that of git's subcommands. Must not know: grants, modes, roots. The list is a seat
belt, not a sandbox: a program that the agent wrote itself can do all of this unseen, which is why `auto` is never the
default.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.policy.commands import CommandLine, SimpleCommand
from pattern_acp.policy.nested_lines import WholeLine, whole_line
from pattern_acp.policy.programs import INTERPRETERS, SHELLS, program_name

_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env", "--super-prefix"}
)
_DISCARDS = "It throws away work that git may not be able to bring back."
_OVERWRITES = "It changes or deletes history that others share."
_RUNS = "With this, git runs other programs."
_GIVES_PROGRAM = re.compile(r"--(?:upload-pack|receive-pack|exec|extcmd|open-files-in-pager|template)\b")


def git_reason(arguments: Sequence[str]) -> str | None:
    """Return why a call of git is on the list, if it is. `arguments` come without the word `git`."""
    settings, rest = _split(arguments)
    if any(re.match(r"-c|--exec-path=|--config-env|--upload-pack", setting) for setting in settings):
        return "It gives git settings on the command line, which can make it run other programs."
    if not rest:
        return None
    name, options = rest[0], rest[1:]
    if name in {"filter-branch", "filter-repo", "replace", "fast-import"}:
        return _OVERWRITES
    if any(_GIVES_PROGRAM.match(option) for option in options) and name not in {"commit", "log", "show"}:
        return _RUNS
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


_GitTest: TypeAlias = Callable[[Sequence[str]], str | None]


def _at_option(reason: str, letters: str, *names: str) -> _GitTest:
    return lambda options: reason if has_option(options, letters, *names) else None


def _at_action(reason: str, *actions: str) -> _GitTest:
    return lambda options: reason if options and options[0] in actions else None


def _at_every_call(reason: str, *names: str) -> dict[str, _GitTest]:
    return dict.fromkeys(names, lambda _: reason)


def _push(options: Sequence[str]) -> str | None:
    forced = has_option(options, "fd", "force", "force-with-lease", "force-if-includes", "delete", "mirror", "prune")
    return _OVERWRITES if forced or any(option.startswith(("+", ":")) for option in options) else None


def _clean(options: Sequence[str]) -> str | None:
    return None if has_option(options, "n", "dry-run") and not has_option(options, "f", "force") else _DISCARDS


_CHECKED_OUT_FILE = re.compile(r"\./.*|:/.*|\*.*|.*/|(?:.*/)?[\w-]*[A-Za-z_-][\w-]*\.[A-Za-z]\w{0,4}")


def _checkout(options: Sequence[str]) -> str | None:
    discards = "--" in options or "." in options
    if discards or has_option(options, "fBp", "force", "patch", "ours", "theirs", "merge", "pathspec-from-file"):
        return _DISCARDS
    if has_option(options, "bt", "orphan", "track", "detach"):
        return None
    plain = [option for option in options if not option.startswith("-")]
    # `git checkout BRANCH` changes the branch; behind it, and instead of it, are files.
    return _DISCARDS if len(plain) > 1 or any(map(_CHECKED_OUT_FILE.fullmatch, plain)) else None


def _grep(options: Sequence[str]) -> str | None:
    return _RUNS if any(re.match(r"-[A-Za-z]*O", option) for option in options) else None


def _symbolic_ref(options: Sequence[str]) -> str | None:
    plain = [option for option in options if not option.startswith("-")]
    return _DISCARDS if len(plain) > 1 or has_option(options, "d", "delete") else None


def _restore(options: Sequence[str]) -> str | None:
    only_index = has_option(options, "S", "staged") and not has_option(options, "W", "worktree")
    return None if only_index else _DISCARDS


def _config(options: Sequence[str]) -> str | None:
    reads = has_option(options, "l", "get", "get-all", "get-regexp", "list", "get-urlmatch") or options[:1] in (
        ["get"],
        ["list"],
    )
    return None if reads else "It changes git's settings, which can make git run other programs."


def _submodule(options: Sequence[str]) -> str | None:
    return _RUNS if "foreach" in options else _DISCARDS if "deinit" in options else None


_TESTS: Mapping[str, _GitTest] = {
    "bisect": _at_action(_RUNS, "run"),
    "branch": _at_option(_DISCARDS, "DMCdf", "delete", "force"),
    "checkout": _checkout,
    "checkout-index": _at_option(_DISCARDS, "f", "force"),
    "clean": _clean,
    "clone": _at_option(_RUNS, "cu", "config"),
    "config": _config,
    "fsmonitor--daemon": _at_action(_RUNS, "start", "run"),
    "gc": _at_option(_DISCARDS, "", "prune", "aggressive"),
    "grep": _grep,
    "help": _at_option(_RUNS, "wi", "web", "info"),
    "hook": _at_action(_RUNS, "run"),
    "lfs": _at_action(_RUNS, "install", "uninstall", "update"),
    "maintenance": _at_action(_RUNS, "start", "stop", "register", "unregister"),
    "notes": _at_action(_DISCARDS, "remove", "prune"),
    "push": _push,
    "read-tree": _at_option(_DISCARDS, "u", "reset"),
    "rebase": _at_option(_RUNS, "x", "exec"),
    "reflog": _at_action(_DISCARDS, "expire", "delete"),
    "remote": _at_action("It changes where git sends and gets its commits.", "set-url", "remove", "rm", "add"),
    "reset": _at_option(_DISCARDS, "", "hard", "merge", "keep"),
    "restore": _restore,
    "rm": _at_option(_DISCARDS, "rf", "force"),
    "stash": _at_action(_DISCARDS, "drop", "clear"),
    "submodule": _submodule,
    "switch": _at_option(_DISCARDS, "fC", "force", "discard-changes", "force-create"),
    "symbolic-ref": _symbolic_ref,
    "tag": _at_option(_DISCARDS, "df", "delete", "force"),
    "worktree": _at_action(_DISCARDS, "remove", "prune"),
    **_at_every_call(_DISCARDS, "prune", "update-ref"),
    **_at_every_call(
        _RUNS,
        *("citool", "credential", "credential-cache", "credential-store", "cvsimport", "cvsserver", "daemon"),
        *("difftool", "gitk", "gui", "http-backend", "imap-send", "instaweb", "mergetool", "p4", "receive-pack"),
        *("remote-ext", "remote-fd", "send-email", "shell", "svn", "upload-archive", "upload-pack", "web--browse"),
    ),
}
"""Tests by git's command."""


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
    r"\b(?:drop\s+(?:table|database|schema|index|view|user|role|keyspace|collection|owned)|truncate\s+(?:table\s+)?\w+|delete\s+from)\b",
    re.IGNORECASE,
)
_INPUT = re.compile(r"/dev/(?:stdin|fd/)|/proc/")
_DOWNLOADERS = frozenset({"curl", "wget", "fetch", "http", "https", "aria2c", "nc", "ncat", "iwr", "invoke-webrequest"})
_PRIVILEGED = frozenset({"sudo", "doas", "su", "pkexec", "runuser", "run0", "gsudo", "runas", "chroot"})
_POWER = frozenset({"shutdown", "reboot", "halt", "poweroff", "init", "telinit", "stop-computer", "restart-computer"})
_DISKS = _names(
    "dd fdisk sfdisk cfdisk gdisk sgdisk parted wipefs shred blkdiscard mkswap format diskpart diskutil hdparm "
    "badblocks cryptsetup lvremove vgremove pvremove zpool zfs btrfs"
)
_DATABASES = _names(
    "psql mysql mariadb sqlite3 sqlcmd sqlplus clickhouse-client duckdb bq mycli pgcli litecli cockroach cqlsh usql "
    "trino presto snowsql influx isql"
)


class CommandRule(Struct, frozen=True):
    """Programs, which of their calls match, and the reason as the end of a sentence that starts with the command."""

    programs: frozenset[str]
    matches: Callable[[SimpleCommand], bool]
    reason: str


def by_program(rules: Sequence[CommandRule]) -> Mapping[str, Sequence[CommandRule]]:
    """Return the rules of each program, in their order."""
    found: dict[str, list[CommandRule]] = {}
    for rule in rules:
        for name in rule.programs:
            found.setdefault(name, []).append(rule)
    return found


def first_reason(rules: Mapping[str, Sequence[CommandRule]], command: SimpleCommand) -> str | None:
    """Return the sentence of the first rule of its program that matches a command; `rules` are `by_program`."""
    name = program_name(command.words[0])
    for rule in rules.get(name, ()):
        if rule.matches(command):
            return f"`{name}` {rule.reason}"
    return None


def always(_: SimpleCommand) -> bool:
    """Match every call of a program."""
    return True


def destructive_reason(line: CommandLine, *, windows: bool = False) -> str | None:
    """Return why a line is on the list, as one sentence, if it is."""
    whole = whole_line(line, windows=windows)
    for redirection in whole.redirections:
        if redirection.writes and _DEVICE.match(redirection.target):
            return "It writes to a device, which can destroy a disk."
    for command in whole.commands:
        reason = _command_reason(command) if command.words else None
        if reason is not None:
            return reason
    return _pipe_reason(whole)


def _pipe_reason(whole: WholeLine) -> str | None:
    named = [(program_name(command.words[0]), command) for command in whole.commands if command.words]
    downloads = any(name in _DOWNLOADERS for name, _ in named)
    for name, command in named:
        if command.piped and (name in SHELLS or (downloads and name in INTERPRETERS)) and name not in {"sed", "awk"}:
            return f"It feeds text to `{name}`, which runs whatever arrives."
        if name in {"source", "."} and any(_INPUT.match(word) for word in command.words[1:]):
            return f"It feeds text to `{name}`, which runs whatever arrives."
        if command.piped and name in _DATABASES and any(_SQL.search(text) for text in whole.fed):
            return f"`{name}` deletes data in a database."
        if downloads and name in SHELLS | {"eval", "source", "."} and command.changing:
            return f"It downloads text and hands it to `{name}`, which runs whatever arrives."
    return None


def _command_reason(command: SimpleCommand) -> str | None:
    name, arguments = program_name(command.words[0]), command.words[1:]
    if name == "git":
        return git_reason(arguments)
    if name.startswith(("mkfs", "newfs")):
        return f"`{name}` erases a disk."
    return first_reason(_BY_PROGRAM, command)


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


def _removes_many(command: SimpleCommand) -> bool:
    arguments = command.words[1:]
    if has_option(arguments, "rR", "recursive", "no-preserve-root"):
        return True
    return has_option(arguments, "f", "force") and any(re.search(r"[*?\[]", word) for word in arguments)


def _verbs(*phrases: str) -> Callable[[SimpleCommand], bool]:
    """Match calls whose first words, options apart, are one of these phrases."""
    wanted = [tuple(phrase.split()) for phrase in phrases]

    def matches(command: SimpleCommand) -> bool:
        plain = tuple(word for word in command.words[1:] if not word.startswith("-"))
        return any(plain[: len(phrase)] == phrase for phrase in wanted)

    return matches


def _sets_for_all(command: SimpleCommand) -> bool:
    """Match `poetry config` and `bundle config` that set something, but for the project alone."""
    words = command.words[1:]
    plain = [word for word in words if not word.startswith("-")]
    return words[:1] == ("config",) and len(plain) > 2 and "--local" not in words


_COMPRESSORS = _names("gzip pigz bzip2 pbzip2 xz pixz zstd zstdmt lz4 lzip plzip lzop brotli compress")


def _runs_program(command: SimpleCommand) -> bool:
    """Match calls of tar that name a program other than one that compresses."""
    for before, word in zip(("", *command.words), command.words, strict=False):
        if re.match(r"--(?:checkpoint-action|to-command|info-script|new-volume-script|rsh-command|rmt-command)", word):
            return "exec" in word or "action" not in word
        value = word.partition("=")[2] if word.startswith("--use-compress") else word if before in {"-I", "-F"} else ""
        if value and value.split()[0] not in _COMPRESSORS:
            return True
    return False


_RULES = (
    CommandRule(_PRIVILEGED, always, "runs a command with the rights of another user."),
    CommandRule(_POWER, always, "stops or restarts the machine."),
    CommandRule(_DISKS, always, "overwrites files or disks below the file system."),
    _rule("rm", _removes_many, "deletes folders or deletes without asking."),
    _rule(
        "find fd fdfind",
        _words("-delete", "-exec rm", "-execdir rm", "-ok rm", "-okdir rm", "-x rm", "-X rm"),
        "deletes all it finds.",
    ),
    _rule("xargs parallel", _words("rm", "unlink", "shred"), "deletes all the files named by its input."),
    _rule("truncate", always, "cuts files off."),
    _rule(
        "chmod chown chgrp setfacl chattr icacls takeown", _options("R", "recursive"), "changes rights of a whole tree."
    ),
    _rule("icacls takeown", _switches("/t", "/r"), "changes rights of a whole tree."),
    _rule("kill", lambda command: "-1" in command.words[2:], "can end every process of the user."),
    _rule("killall pkill killall5 taskkill", always, "ends processes by name."),
    _rule("crontab", _options("r"), "removes all planned jobs."),
    _rule("rsync", _any_word(re.compile(r"--(?:del|remove-s)").match), "deletes files at the target."),
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
    _rule(
        "mvn mvnw gradle gradlew sbt",
        _any_word(re.compile(r":?(?:[\w-]+:)*(?:deploy|publish|release|upload)", re.IGNORECASE).match),
        "publishes a package.",
    ),
    _rule(
        "npm pnpm",
        _verbs(
            "dist-tag",
            "owner",
            "access",
            "token",
            "hook",
            "team",
            "org",
            "profile",
            "star",
            "login",
            "adduser",
            "logout",
            "set",
            "config set",
            "config delete",
            "config edit",
            "c set",
        ),
        "changes accounts, packages of others or settings of this machine.",
    ),
    _rule(
        "yarn",
        _verbs("config set", "login", "npm login", "npm publish", "npm tag", "owner"),
        "changes settings or packages.",
    ),
    _rule("pip pip3", _verbs("config set", "config unset", "config edit"), "changes settings of this machine."),
    _rule("poetry bundle", _sets_for_all, "changes settings of this machine."),
    _rule(
        "go",
        lambda command: command.words[1:2] == ("env",) and has_option(command.words[2:], "wu"),
        "changes settings of this machine.",
    ),
    _rule(
        "python",
        _words("setup.py upload", "setup.py register", "-m flit publish", "-m build upload"),
        "publishes a package.",
    ),
    _rule("maturin", _verbs("publish", "upload"), "publishes a package."),
    _rule("cargo", _verbs("login", "logout", "owner"), "changes accounts or packages of others."),
    _rule(
        "dotnet nuget",
        _words("nuget push", "nuget delete", "push", "delete", "setapikey"),
        "publishes or withdraws a package.",
    ),
    _rule(
        "buildah skopeo crane oras regctl",
        _verbs("push", "copy", "sync", "delete", "cp"),
        "publishes or deletes an image.",
    ),
    _rule("vsce ovsx", _words("publish", "unpublish"), "publishes an extension."),
    _rule("semantic-release release-it np auto fastlane", always, "publishes a release."),
    _rule(
        "goreleaser changeset changesets pod expo eas",
        _words("release", "publish", "push", "submit", "update"),
        "publishes a release.",
    ),
    _rule(
        "code codium cursor windsurf code-insiders idea pycharm webstorm subl zed",
        _words("--install-extension", "--uninstall-extension", "installPlugins"),
        "changes the extensions of an editor.",
    ),
    _rule(
        "docker podman nerdctl",
        _words("prune", "volume rm", "rmi", "push", "--push", "rm -f", "down -v", "down --volumes", "login", "logout"),
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
        _words("deploy", "publish", "destroy", "remove", "rm", "run", "apps:destroy", "pg:reset", "--prod", "secret"),
        "changes what is deployed.",
    ),
    _rule("dropdb dropuser", always, "deletes a database or its user."),
    _rule(
        "redis-cli",
        _any_word(lambda word: word.casefold() in {"flushall", "flushdb", "del", "unlink", "shutdown", "config"}),
        "deletes data or changes settings of a database.",
    ),
    _rule(
        "mongosh mongo",
        _any_word(re.compile(r"drop|delete(?:One|Many)|\.remove\(|shutdown").search),
        "deletes a database or collection.",
    ),
    _rule(
        "rails rake artisan php manage.py django-admin",
        _words(
            "db:drop", "db:reset", "db:wipe", "migrate:fresh", "migrate:reset", "migrate:rollback", "flush", "reset_db"
        ),
        "empties a database.",
    ),
    _rule("python", _words("flush", "-m twine upload", "reset_db"), "empties a database or publishes a package."),
    _rule("prisma", _words("reset", "push --force-reset", "push --accept-data-loss"), "empties a database."),
    _rule(
        "typeorm sequelize sequelize-cli knex diesel mix alembic flask supabase drizzle-kit migrate dbmate goose sqlx",
        _words(
            "schema:drop",
            "db:drop",
            "db:migrate:undo:all",
            "migrate:rollback",
            "database reset",
            "database drop",
            "migration revert",
            "ecto.drop",
            "ecto.reset",
            "ecto.rollback",
            "downgrade",
            "db reset",
            "drop",
            "down",
        ),
        "undoes migrations or empties a database.",
    ),
    _rule("pg_restore", _options("c", "clean"), "replaces what a database holds."),
    _rule("createuser", always, "changes users of a database."),
    _rule("etcdctl consul vault influx", _words("del", "delete", "kv delete", "destroy"), "deletes data of a service."),
    _rule("tar bsdtar", _runs_program, "runs other programs with these options."),
    _rule(
        "latex pdflatex xelatex lualatex latexmk tex",
        _any_word(re.compile(r"--?(?:shell-escape|enable-write18)").match),
        "lets the document run programs.",
    ),
    _rule(
        "ssh-keygen ssh-copy-id ssh-add", lambda command: not has_option(command.words[1:], "lLF"), "changes your keys."
    ),
    _rule(
        "gpg gpg2",
        _any_word(
            re.compile(r"--(?:import|delete|export-secret|gen|full-gen|quick|edit|sign|decrypt|clearsign)|-[sd]$").match
        ),
        "uses or changes your keys.",
    ),
    _rule(
        "pass gopass op bw lpass keyring secret-tool security kwallet-query keyctl",
        always,
        "reads or changes your passwords.",
    ),
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
_BY_PROGRAM = by_program(_RULES)
