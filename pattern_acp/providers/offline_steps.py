"""What the `offline` provider does about a prompt: steps, each a few tool calls.

Owns: which command becomes which call, and what is looked up for a question. Must not know: results or wording.
"""

import re
from typing import assert_never

from msgspec import Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.providers.offline_commands import (
    Command,
    FindText,
    ListDirectory,
    ReadFile,
    Recall,
    Remember,
    ReplaceText,
    RunCommand,
    parse_commands,
)

MAX_WORDS = 4
"""Words of a question that are looked up; more only add noise to the hits."""

_COMMON_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after all also am an and any are as at be because been before but by can change could did do does doing
        done explain file files fix for from get give go good had has have hello help hey hi how i if in into is it its
        just know let like look make me more my need no not now of on one or our out please put say see should show so
        some tell than thank thanks that the their them then there these they this those to too up us use used using
        very want was we were what when where which while who whose why will with without work would write yes you your
        """,
    )
)


class Call(Struct, frozen=True):
    """A tool call to make."""

    tool: str
    arguments: JsonObject


class Step(Struct, frozen=True):
    """Calls that are made together. `command` is None for the look-up behind a question."""

    command: Command | None
    calls: tuple[Call, ...]


def plan_steps(text: str) -> tuple[Step, ...]:
    """The steps for the person's words: one a command, or a single look-up when no line is a command."""
    commands = parse_commands(text)
    if commands:
        return tuple(Step(command, (call_of(command),)) for command in commands)
    return (Step(None, _look_up(salient_words(text))),)


def call_of(command: Command) -> Call:
    """The tool call that carries a command out."""
    match command:
        case ReadFile(path):
            return Call("read_file", {"path": path})
        case ListDirectory(path):
            return Call("list_directory", {"path": path})
        case FindText(text):
            return Call("search_text", {"pattern": literal_pattern(text)})
        case RunCommand(line):
            return Call("run_command", {"command": line})
        case ReplaceText(old_text, new_text, path, is_everywhere):
            edit = {"old_text": old_text, "new_text": new_text, **({"replace_all": True} if is_everywhere else {})}
            return Call("edit_file", {"path": path, "edits": [edit]})
        case Remember(text, label):
            arguments = {"label": label, "operation": "append", "text": text}
            return Call("memory_write", {**arguments, "reason": "The person asked to remember it."})
        case Recall(query):
            return Call("memory_search", {"query": query})
    assert_never(command)


def literal_pattern(text: str) -> str:
    """A regular expression that matches `text` itself, in Python's and in ripgrep's dialect.

    `re.escape` also escapes spaces and punctuation, which ripgrep's dialect refuses in places.
    """
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", text)


def salient_words(text: str) -> tuple[str, ...]:
    """The words of a question worth looking up, at most `MAX_WORDS`: names and paths first, then long words."""
    found = dict.fromkeys(word.strip(".-/") for word in re.findall(r"[\w./-]{3,64}", text))
    kept = [word for word in found if len(word) >= 3 and word.lower() not in _COMMON_WORDS]
    return tuple(sorted(kept, key=lambda word: (not _is_name(word), -len(word)))[:MAX_WORDS])


def _is_name(word: str) -> bool:
    """Whether a word looks like a path or an identifier rather than prose."""
    return bool(re.search(r"[_./\d]|[a-z][A-Z]", word))


def _look_up(words: tuple[str, ...]) -> tuple[Call, ...]:
    if not words:
        return ()
    pattern = "(?i)(" + "|".join(literal_pattern(word) for word in words) + ")"
    # In a glob, brackets and stars would mean something; the words hold neither.
    file_name = words[0].rsplit("/", 1)[-1]
    return (
        Call("memory_search", {"query": " ".join(words)}),
        Call("find_files", {"pattern": f"**/*{file_name}*"}),
        Call("search_text", {"pattern": pattern}),
    )
