"""What `pattern-acp memory` takes.

Owns: its verbs, their arguments, and what is wrong with them. Must not know: what they do. Imports nothing heavy, since
the command line is read before anything else.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse

VERBS: dict[str, tuple[str, int, int]] = {
    "list": ("", 0, 0),
    "show": ("LABEL [VERSION]", 1, 2),
    "history": ("LABEL [BEFORE]", 1, 2),
    "diff": ("LABEL [OLD [NEW]]", 1, 3),
    "blame": ("LABEL [START-END]", 1, 2),
    "undo": ("LABEL [WRITE]", 1, 2),
    "redo": ("LABEL [UNDO]", 1, 2),
    "rollback": ("LABEL VERSION", 2, 2),
    "delete": ("LABEL", 1, 1),
    "restore": ("LABEL [NUMBER]", 1, 2),
    "edit": ("LABEL", 1, 1),
    "import": ("FILE [LABEL]", 1, 2),
    "search": ("WORDS", 1, 1_000),
    "archive": ("", 0, 0),
    "traps": ("[PATH]", 0, 1),
    "trap": ("TEXT --paths GLOBS", 1, 1_000),
    "constraint": ("TEXT --paths GLOBS", 1, 1_000),
    "decision": ("TEXT [--paths GLOBS]", 1, 1_000),
    "resolve": ("ENTRY [REASON]", 1, 1_000),
    "reopen": ("ENTRY [REASON]", 1, 1_000),
    "verify": ("", 0, 0),
    "create": ("[LABEL [DESCRIPTION]]", 0, 1_000),
    "set": ("LABEL [SETTING VALUE]", 1, 1_000),
    "share": ("LABEL [persona:NAME|project:FOLDER [PERMISSION]]", 1, 3),
    "unshare": ("LABEL persona:NAME|project:FOLDER", 2, 2),
    "forget": ("LABEL PASSAGE|--all", 1, 2),
}
"""What each verb takes, and how many words at least and at most."""

_NOTING = frozenset({"trap", "constraint", "decision"})

_SETTING_UP = frozenset({"create", "set", "share", "unshare", "traps", "resolve", "reopen", *_NOTING})

_NUMBERED = frozenset({"show", "history", "diff", "undo", "redo", "rollback", "restore"})


SEARCHED = ("block", "archival", "superseded", "user", "assistant", "task", "skill")
"""What `search --kind` takes."""

VALUED = frozenset(
    {
        *("--kind", "--since", "--until"),
        *("--reason", "--cwd", "--file", "--template", "--scope", "--text"),
        *("--paths", "--severity", "--check"),
        *("--constellation", "--persona", "--model", "--mode", "--thinking", "--log-level"),
    }
)
"""Options that the next word belongs to, those of every command too."""


class Memory(Struct, frozen=True):
    """Look at memory and its history, or change it as the person."""

    flags: Flags = field(default_factory=Flags)
    verb: str = "list"
    label: str = ""
    numbers: tuple[int, ...] = ()
    """The versions, writes or characters that were given."""
    passage: str = ""
    """What to forget (`-` to read it from stdin), or to search for."""
    whole: bool = False
    """Forget the whole block. An empty passage is none: a variable of a script that is not set may have left it."""
    rest: str = ""
    """All that was typed behind a verb that sets blocks up."""
    kinds: tuple[str, ...] = ()
    """What is searched; empty for all but what was superseded."""
    scope: str = ""
    """Whose memory is searched; empty for all in sight."""
    since: str = ""
    """The first day of what is found, such as 2026-11-28, in the time zone of this machine."""
    until: str = ""
    """The last day."""
    reason: str = ""
    cwd: str = ""
    """A directory of the project that is meant; empty for the current one."""
    file: str = ""
    """A file that holds the new text, in the place of an editor, or that is taken in; `-` for stdin."""
    json: bool = False
    words: bool = False
    """Compare word by word."""
    assume_yes: bool = False
    pager: bool = True


class MemoryUsageError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_memory_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    parser.add_argument("verb", nargs="?", choices=tuple(VERBS), default="list", metavar="VERB", help=_verbs())
    parser.add_argument("words_given", nargs="*", metavar="ARGUMENT", help="what the verb takes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--words", action="store_true", help="diff: compare word by word")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the history")
    parser.add_argument("--cwd", metavar="DIR", default="", help="the project's directory instead of the current one")
    parser.add_argument(
        "--file", metavar="FILE", default="", help="edit: take the new text from a file, or - for stdin"
    )
    parser.add_argument("--template", metavar="NAME", default="", help="create: the template of the block")
    parser.add_argument("--scope", metavar="SCOPE", default="", help="create, search: persona, project or shared")
    parser.add_argument(
        "--kind", metavar="KIND", action="append", choices=SEARCHED, help=f"search: one of {', '.join(SEARCHED)}"
    )
    parser.add_argument("--since", metavar="DAY", default="", help="search: nothing older, such as 2026-11-28")
    parser.add_argument("--until", metavar="DAY", default="", help="search: nothing newer; trap, ...: its last day")
    parser.add_argument("--paths", metavar="GLOBS", default="", help="trap, ...: its files, such as 'src/db/**,*.sql'")
    parser.add_argument("--severity", metavar="WORD", default="", help="trap, ...: high, medium or low")
    parser.add_argument("--check", metavar="COMMAND", default="", help="trap, ...: tells whether it still holds")
    parser.add_argument("--text", metavar="TEXT", default="", help="create: its first text; \\n begins a line")
    parser.add_argument("--all", action="store_true", help="forget: the whole block with its history")
    parser.add_argument("--yes", action="store_true", help="forget: do not ask")
    parser.add_argument("--no-pager", action="store_true", help="do not show long output in a pager")


def memory_arguments(flags: Flags, found: Mapping[str, object]) -> Memory:
    """What parsed arguments mean.

    Raises:
        MemoryUsageError: there are too few or too many, or one is no number.
    """
    verb = str(found.get("verb") or "list")
    words = [str(word) for word in cast("list[object]", found.get("words_given") or [])]
    takes, least, most = VERBS[verb]
    if not least <= len(words) <= most:
        raise MemoryUsageError(f"memory {verb} takes {takes or 'nothing more'}.")
    whole = bool(found.get("all"))
    if verb == "forget" and whole == (len(words) == 2):
        raise MemoryUsageError(f"memory forget takes {takes}: a passage, - for stdin, or --all for the whole block.")
    scope = str(found.get("scope") or "")
    if verb == "search" and scope not in {"", "persona", "project", "shared"}:
        raise MemoryUsageError("memory search --scope takes persona, project or shared.")
    file = str(found.get("file", ""))
    if verb == "import":
        file, *words = words
    return Memory(
        flags=flags,
        verb=verb,
        label=words[0] if words and verb != "search" else "",
        numbers=_numbers(verb, words[1:]),
        passage=_passage(verb, words, whole=whole),
        whole=whole,
        kinds=tuple(str(kind) for kind in cast("list[object]", found.get("kind") or [])),
        scope=scope,
        since=_day(verb, found, "since"),
        until=_day(verb, found, "until"),
        rest=_rest(verb, words, found),
        reason=str(found.get("reason", "")),
        cwd=str(found.get("cwd", "")),
        file=file,
        json=bool(found.get("json")),
        words=bool(found.get("words")),
        assume_yes=bool(found.get("yes")),
        pager=not found.get("no_pager"),
    )


def _passage(verb: str, words: list[str], *, whole: bool) -> str:
    if verb == "search":
        return " ".join(words)
    return words[1] if verb == "forget" and not whole else ""


def _day(verb: str, found: Mapping[str, object], name: str) -> str:
    day = str(found.get(name) or "")
    if day:
        try:
            date.fromisoformat(day)
        except ValueError:
            raise MemoryUsageError(f"memory {verb} --{name} takes a day, such as 2026-11-28.") from None
    return day


def _rest(verb: str, words: list[str], found: Mapping[str, object]) -> str:
    if verb not in _SETTING_UP:
        return ""
    if verb in _NOTING:
        return _noted(words, found)
    if verb in {"resolve", "reopen"}:
        return " ".join((*words, *((str(found["reason"]),) if found.get("reason") else ())))
    options = [f"--{name} {value}" for name in ("template", "scope") if (value := str(found.get(name) or ""))]
    if text := str(found.get("text") or ""):
        # `\\n` and a doubled backslash mean what they mean in /memory; every other backslash is one.
        quoted = re.sub(r'\\[n\\]|["\\]', lambda found: found[0] if len(found[0]) == 2 else f"\\{found[0]}", text)
        options.append(f'--text "{quoted}"')
    # A label of several words stays one.
    first = [f'"{word}"' if re.search(r"\s", word) else word for word in words[:1]]
    return " ".join((*first, *options, *words[1:]))


def _noted(words: list[str], found: Mapping[str, object]) -> str:
    names = ("paths", "severity", "until", "check", "reason", "scope")
    options = [f"--{name} {_quoted(value)}" for name in names if (value := str(found.get(name) or ""))]
    return " ".join((_quoted(" ".join(words)), *options))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _numbers(verb: str, words: list[str]) -> tuple[int, ...]:
    if verb == "blame" and words:
        found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", words[0])
        if found is None or int(found[1]) >= int(found[2]):
            raise MemoryUsageError("memory blame takes characters as START-END, counted from 0, such as 10-25.")
        return int(found[1]), int(found[2])
    if verb not in _NUMBERED:
        return ()
    if not all(re.fullmatch(r"\d{1,9}", word) for word in words):
        where = "memory list shows it" if verb == "restore" else "memory history shows them"
        raise MemoryUsageError(f"memory {verb} takes {VERBS[verb][0]}, with numbers as {where}.")
    return tuple(int(word) for word in words)


def _verbs() -> str:
    return "; ".join(f"{verb} {takes}".rstrip() for verb, (takes, _, _) in VERBS.items())
