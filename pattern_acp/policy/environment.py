"""Variables of the environment by which a line makes other programs run something, each with the reason.

Owns: the list, and values that do no harm (`PAGER=cat`). Must not know: grants, modes, paths.
"""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from pattern_acp.policy.commands import CommandLine, SimpleCommand
from pattern_acp.policy.nested_lines import effective_commands
from pattern_acp.policy.programs import SHELLS, program_name


class _Rule(Struct, frozen=True):
    names: re.Pattern[str]
    is_harmless: Callable[[str], object]
    reason: str


def _never(_: str) -> bool:
    return False


_QUIET = re.compile(
    r"(?:cat|less|more|most|head|tail|true|false|echo|:|vi|vim|nvim|nano|ed|code|ssh|firefox|none|dumb|sccache|ccache)?"
    r"(?: -[A-Za-z]+| --wait)*"
)
"""Values that name a program which only shows, does nothing or is an editor, without a path."""
_LOADS = re.compile(
    r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader|-javaagent|-agentlib|-agentpath|-M|-I)"
)
_RUNS_TOOL = re.compile(r"-(?:toolexec|exec|vettool)|--eval|\$\(|`|(?:^|\s)-f")
_LOCAL_ADDRESS = re.compile(r"(?:\w+://)?(?:[^@/]*@)?(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/].*)?|")
_PART_OF_PATH = re.compile(
    r"(?:\$\{?PATH\}?|\$\([^)]*\)/[\w./-]*bin|(?:/|~/|\$\{?(?:HOME|PWD|VIRTUAL_ENV)\}?/)[\w./@+-]*bin)/?"
)

_RULES = (
    _Rule(
        re.compile(
            r"GIT_(?:EXTERNAL_DIFF|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|SSH|SSH_COMMAND|PROXY_COMMAND)|SSH_ASKPASS|PAGER|"
            r"MANPAGER|EDITOR|VISUAL|BROWSER|FCEDIT|LESSOPEN|LESSCLOSE|PSQL_PAGER|PSQL_EDITOR|SUDO_ASKPASS|SUDO_EDITOR|"
            r"RUSTC_WRAPPER|RUSTC_WORKSPACE_WRAPPER|RUSTC|CARGO_BUILD_RUSTC(?:_WRAPPER)?|CARGO_TARGET_\w+_(?:RUNNER|LINKER)|"
            r"RSYNC_RSH|CVS_RSH|BORG_RSH|SHELL|npm_config_(?:script_shell|node_options|git|editor|shell)|CMAKE_\w+_LAUNCHER"
        ),
        _QUIET.fullmatch,
        "names a program that others start",
    ),
    _Rule(
        re.compile(r"GIT_(?:CONFIG\w*|EXEC_PATH|TEMPLATE_DIR|DIR|COMMON_DIR|ATTR_\w+|ALTERNATE_OBJECT_DIRECTORIES)"),
        lambda value: value in {"", "/dev/null", "1", "0"},
        "gives git other settings or programs",
    ),
    _Rule(
        re.compile(r"LD_(?:PRELOAD|AUDIT)|DYLD_(?:INSERT_LIBRARIES|FRAMEWORK_PATH)|GCONV_PATH|TERMINFO|OPENSSL_(?:CONF|ENGINES)"),
        _never,
        "loads code into every program",
    ),
    _Rule(
        re.compile(r"BASH_ENV|ZDOTDIR|PS[0124]|SHELLOPTS|BASHOPTS|PYTHONSTARTUP|PERL5DB|PSQLRC|MAILCAPS?|VIMINIT|EXINIT|"
                   r"GVIMINIT|MYVIMRC|EMACSLOADPATH|INPUTRC|TAR_OPTIONS|ZIPOPT|UNZIP|GREP_OPTIONS|FZF_DEFAULT_\w+"),
        lambda value: value == "" or re.fullmatch(r"[\w>+#:% -]*", value),
        "is run or read by programs when they start",
    ),
    _Rule(re.compile(r"PROMPT_COMMAND"), _never, "is run by shells"),
    _Rule(
        re.compile(r"(?:HOST|BUILD_|TARGET_)?(?:CC|CXX|LD|AR|AS|CPP|FC|RANLIB|STRIP)"),
        lambda value: re.fullmatch(r"(?:s?ccache )?[\w.+/-]+(?: -[\w=.+,:/-]+)*", value),
        "names a program that others start",
    ),
    _Rule(
        re.compile(r"ENV"), lambda value: re.fullmatch(r"[\w-]*", value), "is run or read by programs when they start"
    ),
    _Rule(
        re.compile(r"NODE_OPTIONS|PERL5OPT|RUBYOPT|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|_JAVA_OPTIONS|PYTHONBREAKPOINT|MAVEN_OPTS"),
        lambda value: _LOADS.search(value) is None and not re.match(r"[-]?[rm]\w", value),
        "makes an interpreter load code",
    ),
    _Rule(
        re.compile(r"GOFLAGS|MAKEFLAGS|GNUMAKEFLAGS|MFLAGS|RUSTFLAGS|CARGO_ENCODED_RUSTFLAGS"),
        lambda value: _RUNS_TOOL.search(value) is None and "linker" not in value,
        "makes a build tool run something",
    ),
    _Rule(
        re.compile(
            r"(?:https?|all|ftp|npm_config(?:_https)?)_proxy|(?:pip|uv)(?:_extra)?_index_url|npm_config_registry|goproxy",
            re.IGNORECASE,
        ),
        lambda value: _LOCAL_ADDRESS.fullmatch(value) or value in {"off", "direct"},
        "leads what programs fetch and send to another machine",
    ),
    _Rule(
        re.compile(r"PATH"),
        lambda value: all(_PART_OF_PATH.fullmatch(part) for part in value.split(":")),
        "decides which programs run by their names",
    ),
)  # fmt: skip
_OF_HOME = re.compile(r"HOME|XDG_CONFIG_HOME|XDG_CONFIG_DIRS")
_READ_HOME = SHELLS | frozenset({"git", "ssh", "gpg", "npm", "vim", "emacs", "tmux", "screen", "less"})
_SETTERS = frozenset(
    {"env", "export", "declare", "typeset", "local", "readonly", "setenv", "cross-env", "cross-env-shell", "sudo",
     "doas", "dotenvx", "make", "gmake", "xargs", "systemd-run", "setx", "tmux"}
)  # fmt: skip
_SET = re.compile(r"(?:--set-env=|-e)?([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)


def environment_reason(line: CommandLine, *, windows: bool = False) -> str | None:
    """Return why a variable that a line sets may make a program run something, as one sentence."""
    commands = effective_commands(line, windows=windows)
    for name, value in (pair for command in commands for pair in _set_by(command)):
        plain = value.strip("\"'")
        for rule in _RULES:
            if rule.names.fullmatch(name) and not rule.is_harmless(plain):
                return f"It sets `{name}`, which {rule.reason}."
        if _OF_HOME.fullmatch(name) and any(
            program_name(command.words[0]) in _READ_HOME for command in commands if command.words
        ):
            return f"It sets `{name}`, from where programs read settings that run others."
    return None


def _set_by(command: SimpleCommand) -> Iterator[tuple[str, str]]:
    words = command.words[1:] if command.words and program_name(command.words[0]) in _SETTERS else ()
    # PowerShell and fish have forms of their own, which count as unread or as words.
    for text in (*command.assignments, *words):
        if match := _SET.fullmatch(text):
            yield match[1], match[2]
