"""Commands that reach beyond the folders of a session, and so ask even in `auto`, each with the reason.

Owns: the list. Must not know: grants, modes, roots. `auto` promises to work inside the session's folders; these act on
the network, on processes that the session did not start, in containers, or on the machine itself, which no path of the
line shows. As for `destructive`, a program of the project can do the same unseen: `npm test` and `sh build.sh` run.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from pattern_acp.policy.commands import CommandLine, SimpleCommand
from pattern_acp.policy.destructive import CommandRule, always, by_program, first_reason, git_command, has_option
from pattern_acp.policy.nested_lines import effective_commands, whole_line
from pattern_acp.policy.programs import program_name


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLIENTS = _names(
    "curl wget http https xh aria2c lynx w3m links elinks iwr irm invoke-webrequest invoke-restmethod fetch dig drill "
    "nslookup host ping"
)
_CHANNELS = _names(
    "nc ncat netcat socat telnet ftp sftp tftp lftp ssh mosh sshpass autossh mail sendmail mailx mutt swaks ngrok "
    "cloudflared croc wormhole magic-wormhole localtunnel lt bore tailscale wg-quick syncthing nmap masscan traceroute "
    "tracepath mtr whois axel youtube-dl yt-dlp certutil bitsadmin restic borg duplicity kopia telegram-send adb "
    "mosquitto_pub mosquitto_sub kafkacat kcat grpcurl websocat wscat"
)
_BROWSERS = _names("firefox chromium chromium-browser google-chrome chrome safari msedge microsoft-edge brave opera")
_VERSION_CONTROL = _names("hg svn bzr darcs fossil cvs p4")
_DATABASES = _names("psql mysql mariadb redis-cli mongosh mongo pg_dump pg_restore mysqldump cqlsh clickhouse-client")
_COPIERS = _names("scp rsync rcp rclone")
_CONTAINERS = _names("docker podman nerdctl docker-compose podman-compose")
_SYSTEM_INSTALLERS = _names(
    "apt apt-get aptitude dnf yum zypper pacman apk snap flatpak brew port choco winget scoop emerge pkg nix-env"
)
_CLOUDS = _names("aws gcloud az gsutil s3cmd doctl ansible ansible-playbook vagrant")
_TALKS = "talks to another machine, and can carry away what the model has read."
_ENVIRONMENTS = _names("npm pnpm yarn bun")
_LOOPBACK = _names("localhost 127.0.0.1 [::1] ::1 0.0.0.0 host.docker.internal")
_TAKES_VALUE = re.compile(
    r"-[sSLfkiIvgNOjJn]*[odHXwumAbcFDeEyYzrT]|--(?:output|output-dir|data|data-raw|data-binary|data-urlencode|"
    r"data-ascii|json|header|request|write-out|user|max-time|connect-timeout|form|form-string|cookie|cookie-jar|dump-header|user-agent|"
    r"referer|range|retry|retry-delay|retry-max-time|cacert|cert|key|limit-rate|trace|trace-ascii|max-filesize|max-redirs|"
    r"upload-file|stderr|speed-limit|speed-time|continue-at|time-cond|ciphers|tls-max|noproxy|proto|url-query|"
    r"timeout|tries|output-document|output-file|directory-prefix|waitretry|wait|post-data|post-file|method|body-data)"
)
"""Options of curl and wget with a value that is no address."""
_DETOURS = (
    "config", "proxy", "preproxy", "proxy1.0", "socks4", "socks4a", "socks5", "socks5-hostname", "resolve",
    "connect-to", "doh-url", "dns-servers", "input-file", "execute",
)  # fmt: skip
"""Options of web clients that can lead anywhere."""
_REMOTE_PATH = re.compile(
    r"(?:[\w.-]+@)?(?:[\w.-]{2,}|\[[^\]]+\]|[A-Za-z](?!:[\\/])):(?!//).*|\w+://.*|[\w.-]+::.*", re.DOTALL
)
_TRANSPORT = re.compile(r"(?:[a-z][a-z0-9+.-]*://|ext::|fd::|[\w.-]+@[\w.-]+:).*", re.IGNORECASE)
_OWN_PROCESS = re.compile(r"%\S*|\$!|\$\{!\}|0")


def reaching_reason(line: CommandLine, *, windows: bool = False) -> str | None:
    """Return why a line reaches beyond its session's folders, as one sentence, if it is known to."""
    whole = whole_line(line, windows=windows)
    for command in whole.commands:
        if command.changing and whole.unknown.isdisjoint(command.words) and command.words[0] == "kill":
            continue  # its form with the known processes is among the commands, too
        reason = first_reason(_BY_PROGRAM, command) if command.words else None
        if reason is not None:
            return reason
    return None


def _calls_away(command: SimpleCommand) -> bool:
    """Return whether a web client may talk to another machine: only what names this one, and nothing else, does not."""
    name, arguments = program_name(command.words[0]), command.words[1:]
    if any(argument in {"-h", "--help", "-V", "--version"} for argument in arguments):
        return len(arguments) > 1
    letters = "Kx" if name == "curl" else "ie"
    if command.changing or has_option(arguments, letters, *_DETOURS):
        return True
    if name in {"curl", "wget"}:
        arguments = _without_values(arguments)
    plain = [argument for argument in arguments if not argument.startswith("-")]
    if name in {"http", "https", "xh", "xhs"}:
        # A method comes before the address, and fields behind it.
        plain = [word for word in plain if not re.fullmatch(r"[A-Z]+|[^:/]+(?:=|:=|==|@).*", word)][:1]
    return not plain or not all(_is_here(argument) for argument in plain)


def _is_here(address: str) -> bool:
    """Return whether a web client takes an address for one of this machine."""
    if re.fullmatch(r":\d+(?:/.*)?|:/.*", address):  # of httpie
        return True
    host = "" if "\\" in address else _host(address)
    return host in _LOOPBACK or re.fullmatch(r"127(?:\.\d{1,3}){3}", host) is not None


def _without_values(arguments: Sequence[str]) -> tuple[str, ...]:
    """Drop the words that are values of curl's options: a file's name may look like a host's."""
    return tuple(
        argument
        for index, argument in enumerate(arguments)
        if index == 0 or _TAKES_VALUE.fullmatch(arguments[index - 1]) is None
    )


def _host(address: str) -> str:
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""
    return host.casefold()


def _copies_away(command: SimpleCommand) -> bool:
    arguments = command.words[1:]
    has_remote = any(_REMOTE_PATH.fullmatch(argument) for argument in arguments if not argument.startswith("-"))
    runs_shell = has_option(arguments, "eS", "rsh", "rsync-path")
    return has_remote or bool(command.changing) or program_name(command.words[0]) == "rclone" or runs_shell


def _asks_elsewhere(command: SimpleCommand) -> bool:
    """Return whether a client of a database names a server on another machine."""
    hosts: list[str] = []
    for before, word in zip(("", *command.words[1:]), command.words[1:], strict=False):
        if before in {"-h", "--host"}:
            hosts.append(word)
        elif word.startswith("--host="):
            hosts.append(word.partition("=")[2])
        elif "://" in word:
            hosts.append(_host(word) or "localhost")
        else:
            hosts += re.findall(r"\bhost=([^\s']+)", word)
    return any(host not in _LOOPBACK and not host.startswith(("/", ".")) for host in hosts)


def _synchronises(command: SimpleCommand) -> bool:
    verbs = _names(
        "clone pull push incoming outgoing checkout co commit ci update up sync export import fetch send switch"
    )
    return any(word in verbs for word in command.words[1:3])


def _ends_others(command: SimpleCommand) -> bool:
    """Return whether `kill` may reach a process that this line did not start."""
    arguments = command.words[1:]
    if not arguments or arguments[0] in {"-l", "-L"}:
        return False
    targets = _kill_targets(arguments)
    return not targets or any(_OWN_PROCESS.fullmatch(target) is None for target in targets)


def _kill_targets(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `kill` that name processes; a negative number after the signal is a whole group."""
    rest = list(arguments)
    if rest[0] in {"-s", "-n", "--signal"}:
        rest = rest[2:]
    elif rest[0] != "--" and rest[0].startswith("-"):
        rest = rest[1:]
    return [word for word in rest if word != "--"]


def _runs_containers(command: SimpleCommand) -> bool:
    acts = _names(
        "run create exec cp start restart stop kill rm load import login commit attach up update plugin swarm build "
        "buildx"
    )
    return any(word in acts for word in command.words[1:])


def _installs_for_all(command: SimpleCommand) -> bool:
    arguments = command.words[1:]
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    verbs = _names("install i in add ci update upgrade up uninstall remove rm un link ln")
    is_global = has_option(own, "g", "global", "location") and any(word in verbs for word in own)
    return is_global or own[:1] == ("global",)


def _installs_at_home(command: SimpleCommand) -> bool:
    """Return whether a language's package manager installs programs into the user's home."""
    name, arguments = program_name(command.words[0]), command.words[1:]
    verbs = [word for word in arguments if not word.startswith(("-", "+"))][:2]
    if name == "uv":
        return verbs in (["tool", "install"], ["tool", "upgrade"], ["tool", "uninstall"], ["python", "install"])
    if name == "dart":
        return verbs == ["pub", "global"]
    if name == "deno":
        return verbs[:1] == ["install"] and has_option(arguments, "g", "global")
    if name == "composer":
        return verbs[:1] == ["global"]
    more = _names("use plugin remove pkg i") if name not in {"cargo", "go", "gem"} else _names("")
    return bool(verbs) and verbs[0] in more | _names(
        "install uninstall inject upgrade upgrade-all update toolchain default"
    )


def _installs_into_python(command: SimpleCommand) -> bool:
    """Return whether Python's package manager installs somewhere else than into the environment in use."""
    outside = ("user", "break-system-packages", "target", "prefix", "root", "system")
    words = command.words[1:]
    return "install" in words and any(word[2:].partition("=")[0] in outside for word in words if word.startswith("--"))


def _changes_cluster(command: SimpleCommand) -> bool:
    writes = _names(
        "apply create exec cp run edit patch replace set label annotate rollout scale autoscale expose attach "
        "port-forward proxy drain cordon uncordon taint delete install upgrade uninstall rollback push debug"
    )
    return any(word in writes for word in command.words[1:])


def _opens_connection(command: SimpleCommand) -> bool:
    return any(word in {"s_client", "s_server"} for word in command.words[1:])


def _changes_system(command: SimpleCommand) -> bool:
    reads = _names("list search show info policy depends rdepends status outdated why home doctor config --version -V")
    return not any(word in reads for word in command.words[1:2])


def _changes_services(command: SimpleCommand) -> bool:
    reads = _names("status list-units list-unit-files list-timers show cat is-active is-enabled is-failed list print")
    return not any(word in reads for word in command.words[1:]) and len(command.words) > 1


def _plans(command: SimpleCommand) -> bool:
    return not has_option(command.words[1:], "l")


def _git_reaches(command: SimpleCommand) -> bool:
    """Return whether git names a remote in full, which nobody agreed to; `origin` is the project's own."""
    name, options = git_command(command.words[1:])
    plain = [option for option in options if not option.startswith("-")][:1]
    if name in {"push", "pull", "fetch", "clone", "ls-remote"} and plain and _REMOTE_PATH.fullmatch(plain[0]):
        return True
    return name in {"push", "pull", "fetch", "clone", "ls-remote", "archive", "submodule"} and any(
        _TRANSPORT.fullmatch(option.partition("=")[2] or option) for option in options
    )


def _acts_for_the_user(command: SimpleCommand) -> bool:
    words = command.words[1:3]
    return any(word in _names("api gist secret auth ssh-key gpg-key codespace variable workflow") for word in words)


_RULES = (
    CommandRule(_CLIENTS, _calls_away, _TALKS),
    CommandRule(_CHANNELS, always, _TALKS),
    CommandRule(_COPIERS, _copies_away, "copies files from or to another machine."),
    CommandRule(_VERSION_CONTROL, _synchronises, _TALKS),
    CommandRule(_DATABASES, _asks_elsewhere, _TALKS),
    CommandRule(_BROWSERS, always, "opens programs of the user outside this session."),
    CommandRule(_names("git"), _git_reaches, "talks to a repository that is not one of this project's remotes."),
    CommandRule(_names("gh glab hub"), _acts_for_the_user, "acts in the user's name on another machine."),
    CommandRule(_names("kill skill snice renice"), _ends_others, "acts on processes that this command did not start."),
    CommandRule(
        _CONTAINERS, _runs_containers, "starts or changes containers, which can change anything on this machine."
    ),
    CommandRule(
        _names("systemd-run dbus-send gdbus busctl qdbus nsenter wsl"),
        always,
        "acts on processes that this command did not start.",
    ),
    CommandRule(_names("xclip xsel wl-paste wl-copy pbpaste pbcopy"), always, "uses the clipboard of the user."),
    CommandRule(_ENVIRONMENTS, _installs_for_all, "installs programs outside the folders of this session."),
    CommandRule(
        _names(
            "cargo go gem pipx uv rustup nvm pyenv asdf mise sdk luarocks opam stack cabal raco nimble dart deno "
            "composer conda mamba fnm volta rbenv"
        ),
        _installs_at_home,
        "installs programs outside the folders of this session.",
    ),
    CommandRule(_names("cpan cpanm"), always, "installs programs outside the folders of this session."),
    CommandRule(
        _names("pip pip3 uv python"), _installs_into_python, "installs programs outside the folders of this session."
    ),
    CommandRule(_names("kubectl oc helm"), _changes_cluster, "changes a cluster."),
    CommandRule(_CLOUDS, always, "acts in the user's name on other machines."),
    CommandRule(_names("openssl"), _opens_connection, _TALKS),
    CommandRule(_SYSTEM_INSTALLERS, _changes_system, "installs or removes programs of this machine."),
    CommandRule(_names("systemctl service launchctl sc"), _changes_services, "changes services of this machine."),
    CommandRule(
        _names("defaults"), lambda command: command.words[1:2] != ("read",), "changes settings of this machine."
    ),
    CommandRule(_names("crontab"), _plans, "plans commands that run when this session is over."),
    CommandRule(_names("at batch schtasks"), _plans, "plans commands that run when this session is over."),
    CommandRule(
        _names("open xdg-open start explorer osascript"), always, "opens programs of the user outside this session."
    ),
    CommandRule(
        _names(
            "mount umount insmod rmmod modprobe sysctl loginctl hostnamectl timedatectl chsh chfn gsettings dconf "
            "xdg-mime xdg-settings update-alternatives"
        ),
        always,
        "changes settings of this machine.",
    ),
)
_BY_PROGRAM = by_program(_RULES)


_JAVASCRIPT = "install i ci add update up upgrade publish outdated audit view info login"
_FETCHING = {
    "npm": _JAVASCRIPT,
    "pnpm": _JAVASCRIPT,
    "bun": _JAVASCRIPT,
    "yarn": "install add up upgrade outdated audit info publish",
    "pip": "install download index search",
    "pip3": "install download index search",
    "uv": "sync add lock tool pip python publish",
    "poetry": "install add update lock publish search",
    "pdm": "install add update lock sync publish",
    "pipenv": "install update lock sync",
    "conda": "install create update search",
    "mamba": "install create update search",
    "cargo": "add update fetch search publish install login owner yank",
    "go": "get install",
    "bundle": "install update add",
    "gem": "install update fetch push search",
    "composer": "install update require create-project",
    "dotnet": "restore add tool",
    "nuget": "install restore push",
    "mix": "deps.get deps.update hex.info",
    "dart": "pub",
    "flutter": "pub",
    "helm": "pull repo dependency",
    "gh": "api auth browse cache codespace gist issue label pr project release repo run search secret ssh-key workflow",
    "glab": "api auth ci issue mr release repo",
}  # fmt: skip
_FETCHING_TABLE = {name: _names(verbs) for name, verbs in _FETCHING.items()}
_GIT_FETCHES = _names("push pull fetch clone ls-remote")
_OFFLINE = _names("--offline --no-network --no-index --prefer-offline -h --help --dry-run")


def network_need(line: CommandLine, *, windows: bool = False) -> str:
    """Return the words of a line that surely need the network, such as `npm install`; empty when it may do without."""
    for command in effective_commands(line, windows=windows):
        if not command.words or not _OFFLINE.isdisjoint(command.words):
            continue
        name, arguments = program_name(command.words[0]), command.words[1:]
        if name.startswith("python") and arguments[:2] == ("-m", "pip"):
            name, arguments = "pip", arguments[2:]
        if name == "git":
            verb, options = git_command(arguments)
            if verb in _GIT_FETCHES and not _names_a_path(verb, options):
                return f"git {verb}"
            if (verb, options[:1]) in {("remote", ("update",)), ("submodule", ("update",)), ("submodule", ("add",))}:
                return f"git {verb} {options[0]}"
        verbs = [word for word in arguments if not word.startswith("-")]
        is_bare = name == "yarn" and not arguments
        if verbs[:1] and verbs[0] in _FETCHING_TABLE.get(name, ()):
            return f"{name} {verbs[0]}"
        if is_bare or (name == "go" and verbs[:2] in (["mod", "download"], ["mod", "tidy"])):
            return " ".join([name, *verbs[:2]])
    return ""


def _names_a_path(verb: str, options: Sequence[str]) -> bool:
    """Return whether git talks to a repository on this machine, which is named as a path."""
    named = [option for option in options if not option.startswith("-")][:1]
    return bool(named) and named[0].startswith(("/", "./", "../")) and (verb != "clone" or len(options) > 0)


_STAYING = _names(
    "mkdir touch cp mv rmdir rm sort uniq wc cat head tail echo printf true false test basename dirname diff"
)
"""Programs that touch what their words name, and nothing else; paths outside, and `rm -r`, ask on their own."""


def stays_inside(command: SimpleCommand) -> bool:
    """Return whether a command surely touches only what its words name."""
    # A path names a file of the project, which may be any program.
    is_of_system = bool(command.words) and re.fullmatch(r"(?:/usr)?/bin/[\w.-]+|[\w.-]+", command.words[0]) is not None
    return is_of_system and program_name(command.words[0]) in _STAYING
