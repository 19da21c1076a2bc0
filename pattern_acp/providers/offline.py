"""The embedded default: no model and no network, yet real tool calls.

Owns: turning plain commands into calls, and results into words. It sees a `ProviderRequest` and nothing else, so a turn
with it goes through the same loop, policy and editor as a turn with a model. Must not know: the tools' code.

It has no state: each request is answered from the messages since the user's last one. The calls already made there show
which step is next.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TypeAlias, assert_never

import anyio.lowlevel
from msgspec import Struct

from pattern_acp.domain.action_lines import Form, Verbs, read_form, unquote_text
from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.domain.messages import Message, ResourcePart, Role, TextPart, ToolResultPart, is_about_user
from pattern_acp.domain.tool_calls import USER_REFUSED
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
)


class ReadFile(Struct, frozen=True):
    """`read PATH`."""

    path: str


class ListStep(Struct, frozen=True):
    """`list [PATH]`."""

    path: str


class FindText(Struct, frozen=True):
    """`find TEXT`, taken literally."""

    text: str


class RunStep(Struct, frozen=True):
    """`run COMMAND`; the rest of the line as it is."""

    command: str


class ReplaceText(Struct, frozen=True):
    """`replace [all] "A" with "B" in PATH`."""

    old_text: str
    new_text: str
    path: str
    is_everywhere: bool = False


class Remember(Struct, frozen=True):
    """`remember [LABEL:] TEXT`; without a label it goes to `human` if it is about the user, else to `project`."""

    text: str
    label: str = "human"


class Recall(Struct, frozen=True):
    """`recall QUERY`."""

    query: str


Command: TypeAlias = ReadFile | ListStep | FindText | RunStep | ReplaceText | Remember | Recall

_FORMS = Verbs(
    (
        Form("read", "path:word"),
        Form("list", "path:word?"),
        Form("find", "text:rest"),
        Form("run", "command:line"),
        Form("replace", "all:flag old:quoted with new:quoted in path:word"),
        Form("remember", "text:line"),
        Form("recall", "text:rest"),
    )
)
_LABELLED = re.compile(r"(me|human|project|persona):\s*(?=\S)", re.IGNORECASE)


def parse_commands(text: str) -> tuple[Command, ...]:
    """The commands of a prompt, one for each line that is one, in order."""
    found = (parse_command(line) for line in text.splitlines())
    return tuple(command for command in found if command is not None)


def parse_command(line: str) -> Command | None:
    """The command that a line is, or None."""
    found = read_form(line, _FORMS)
    return None if found is None else _build(*found)


def _build(name: str, slots: Mapping[str, str]) -> Command | None:
    if name == "read":
        return ReadFile(slots["path"])
    if name == "list":
        return ListStep(slots.get("path", "."))
    if name == "find":
        return FindText(slots["text"])
    if name == "run":
        return RunStep(slots["command"])
    if name == "replace":
        # An empty passage is everywhere and nowhere; such a line is left to be answered in words.
        return ReplaceText(slots["old"], slots["new"], slots["path"], "all" in slots) if slots["old"] else None
    if name == "remember":
        labelled = _LABELLED.match(slots["text"])
        text = slots["text"][labelled.end() :] if labelled else slots["text"]
        text = unquote_text(text)
        if not labelled:
            return Remember(text, "human" if is_about_user(text) else "project")
        return Remember(text, "human" if labelled[1].lower() == "me" else labelled[1].lower())
    return Recall(slots["text"])


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


class PlannedCall(Struct, frozen=True):
    """A tool call to make."""

    tool: str
    arguments: JsonObject


class Step(Struct, frozen=True):
    """Calls that are made together. `command` is None for the look-up behind a question."""

    command: Command | None
    calls: tuple[PlannedCall, ...]


def plan_steps(text: str) -> tuple[Step, ...]:
    """The steps for the user's words: one a command, or a single look-up when no line is a command."""
    commands = parse_commands(text)
    if commands:
        return tuple(Step(command, (call_of(command),)) for command in commands)
    return (Step(None, _look_up(salient_words(text))),)


def call_of(command: Command) -> PlannedCall:
    """The tool call that carries a command out."""
    match command:
        case ReadFile(path):
            return PlannedCall("read_file", {"path": path})
        case ListStep(path):
            return PlannedCall("list_directory", {"path": path})
        case FindText(text):
            return PlannedCall("search_text", {"pattern": literal_pattern(text)})
        case RunStep(line):
            return PlannedCall("run_command", {"command": line})
        case ReplaceText(old_text, new_text, path, is_everywhere):
            edit = {"old_text": old_text, "new_text": new_text, **({"replace_all": True} if is_everywhere else {})}
            return PlannedCall("edit_file", {"path": path, "edits": [edit]})
        case Remember(text, label):
            arguments = {"label": label, "operation": "append", "text": text}
            return PlannedCall("memory_write", {**arguments, "reason": "The user asked to remember it."})
        case Recall(query):
            return PlannedCall("memory_search", {"query": query})
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
    """Return whether a word looks like a path or an identifier rather than prose."""
    return bool(re.search(r"[_./\d]|[a-z][A-Z]", word))


def _look_up(words: tuple[str, ...]) -> tuple[PlannedCall, ...]:
    if not words:
        return ()
    pattern = "(?i)(" + "|".join(literal_pattern(word) for word in words) + ")"
    # In a glob, brackets and stars are special; the words have neither.
    file_name = words[0].rsplit("/", 1)[-1]
    return (
        PlannedCall("memory_search", {"query": " ".join(words)}),
        PlannedCall("find_files", {"pattern": f"**/*{file_name}*"}),
        PlannedCall("search_text", {"pattern": pattern}),
    )


SHOWN_CHARS = 4_000
"""Characters of a result in the answer to a command; the whole of it is in the tool call above."""

SHOWN_HIT_CHARS = 1_200
"""Characters of each look-up in the answer to a question."""

_HIT_HEAD = re.compile(r"^\[(.+?, \d{4}-\d\d-\d\d)\b[^\]\n]*\]$", re.MULTILINE)
_SESSION_ID = re.compile(r" in session ses_\w+")

NO_MODEL = "The offline provider answers, without a model: it cannot think about this, and only looked it up."

NO_MODEL_HELP = "The offline provider answers, without a model."

HOW_TO_CONFIGURE = """To have a model answer, do one of these and start again:
- run `pattern-acp auth login PROVIDER` in a terminal, and choose the model with `/model`;
- set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY`;
- start Ollama, LM Studio or llama-server on this machine, or set `OLLAMA_HOST`;
- add a `[providers.NAME]` table to `config.toml` (`pattern-acp doctor` says where it is)."""

WHAT_I_UNDERSTAND = (
    "Without a model I understand lines that start with a command: "
    '`read PATH`, `list PATH`, `find TEXT`, `run COMMAND`, `replace "A" with "B" in PATH`, '
    "`remember TEXT`, `recall QUERY`."
)

TOLD_ALREADY = "This is without a model; `help` says again what is understood and how to set one up."


def has_been_told(answer: str) -> bool:
    """Return whether an earlier answer explains how to work without a model."""
    return HOW_TO_CONFIGURE in answer


def describe_unavailable(step: Step) -> str:
    """One sentence for a command whose tool is not offered."""
    tool = step.calls[0].tool if step.calls else "a tool"
    return f"I left out “{_title(step.command)}”: {tool} is not offered in this mode."


def describe_result(
    step: Step, calls: Sequence[PlannedCall], results: Sequence[ToolResultPart | None], *, told: bool = False
) -> str:
    """Describe the outcome of a step; `explained`: this session has already explained how to set up a model."""
    if step.command is None:
        return _describe_look_up(calls, results, told=told)
    result = results[0] if results else None
    if result is None:
        return f"“{_title(step.command)}” gave no result."
    if result.text.startswith(USER_REFUSED):
        return f"You refused “{_title(step.command)}”. It did not run."
    if result.is_error:
        return f"“{_title(step.command)}” did not work:\n\n{_block(result.text, SHOWN_CHARS)}"
    return _describe_success(step.command, result.text)


def _describe_success(command: Command, text: str) -> str:
    shown = _block(text, SHOWN_CHARS)
    match command:
        case ReadFile(path):
            return f"`{path}`:\n\n{shown}"
        case ListStep(path):
            return f"In `{path}`:\n\n{shown}"
        case FindText(found):
            return f"Looking for “{found}”:\n\n{shown}"
        case RunStep(line):
            return f"`{line}`:\n\n{shown}"
        case ReplaceText(_, _, path):
            return f"I replaced the text in `{path}`."
        case Remember(_, label):
            return f"I wrote it down in the memory block `{label}`."
        case Recall(query):
            return f"What memory holds about “{query}”:\n\n{_block(_plain_hits(text), SHOWN_CHARS)}"
    assert_never(command)


def _describe_look_up(calls: Sequence[PlannedCall], results: Sequence[ToolResultPart | None], *, told: bool) -> str:
    titles = {"memory_search": "From memory", "find_files": "Matching files", "search_text": "In the project"}
    found = [
        f"{titles.get(call.tool, call.tool)}:\n\n{_block(_shown(call, result.text), SHOWN_HIT_CHARS)}"
        for call, result in zip(calls, results, strict=False)
        if result is not None and not result.is_error and _has_hits(result.text)
    ]
    failed = [
        f"{call.tool} did not work: {_first_line(result.text)}"
        for call, result in zip(calls, results, strict=False)
        if result is not None and result.is_error
    ]
    nothing = ["Neither memory nor the project's files mention it."] if calls and not found and not failed else []
    if told and calls:
        return "\n\n".join([*found, *failed, *nothing, TOLD_ALREADY])
    if not calls:
        return "\n\n".join([NO_MODEL_HELP, WHAT_I_UNDERSTAND, HOW_TO_CONFIGURE])
    return "\n\n".join([NO_MODEL, *found, *failed, *nothing, WHAT_I_UNDERSTAND, HOW_TO_CONFIGURE])


def _shown(call: PlannedCall, text: str) -> str:
    return _plain_hits(text) if call.tool == "memory_search" else text


def _plain_hits(text: str) -> str:
    """Hits without what only a model needs: the ids of sessions, and the reasons of their order."""
    return _HIT_HEAD.sub(lambda head: f"[{_SESSION_ID.sub('', head[1])}]", text)


def _has_hits(text: str) -> bool:
    """Return whether there were hits: without any, tools say "No …" or "Nothing …"."""
    return not text.strip().lower().startswith(("no ", "nothing", "0 ")) and bool(text.strip())


def _title(command: Command | None) -> str:
    match command:
        case ReadFile(path):
            return f"read {path}"
        case ListStep(path):
            return f"list {path}"
        case FindText(text):
            return f"find {text}"
        case RunStep(line):
            return f"run {line}"
        case ReplaceText(_, _, path):
            return f"replace … in {path}"
        case Remember():
            return "remember"
        case Recall(query):
            return f"recall {query}"
        case None:
            return "looking it up"
    assert_never(command)


def _block(text: str, limit: int) -> str:
    """Text as a code block that nothing inside can close; cut with a mark."""
    body = text.rstrip()
    if len(body) > limit:
        body = body[:limit].rstrip() + f"\n… ({len(text.rstrip()) - limit} characters more in the tool call)"
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}\n{body}\n{fence}"


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "it gave no reason"


OFFLINE_MODEL = "offline"
"""The one model name of this provider."""


class _Turn(Struct, frozen=True):
    """The current turn, read from the messages."""

    prompt_id: str
    steps: tuple[Step, ...]
    results: tuple[ToolResultPart | None, ...]
    """One for each call made so far, in order; None when no result is there."""
    told: bool
    """True if an earlier turn explained how to set up a model."""


class OfflineProvider:
    """`Provider` without a model."""

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return "offline"

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`; never raises."""
        return aclosing(_events(answer(request)))


async def _events(answered: tuple[ProviderEvent, ...]) -> AsyncGenerator[ProviderEvent, None]:
    for event in answered:
        await anyio.lowlevel.checkpoint()
        yield event


def answer(request: ProviderRequest) -> tuple[ProviderEvent, ...]:
    """All events of the answer to `request`; a function of the request alone.

    Steps are taken one request at a time and in order, so that the user sees each result before the next call. Steps
    without their tool are reported and skipped.
    """
    turn = _read_turn(request.messages)
    offered = {tool.name for tool in request.tools}
    words: list[str] = []
    taken = 0
    for number, step in enumerate(turn.steps):
        calls = tuple(call for call in step.calls if call.tool in offered)
        if step.command is not None and not calls:
            words.append(describe_unavailable(step))
            continue
        if calls and taken >= len(turn.results):
            return (*_text(words), *_call_events(turn.prompt_id, number, calls))
        results = turn.results[taken : taken + len(calls)]
        taken += len(calls)
        # The words before this step's result went out with an earlier request.
        words = [describe_result(step, calls, results, told=turn.told)]
    return (*_text(words), Stopped(ProviderStop.END))


def _read_turn(messages: tuple[Message, ...]) -> _Turn:
    start = max((at for at, message in enumerate(messages) if message.role is Role.USER), default=-1)
    if start < 0:
        return _Turn("", plan_steps(""), (), told=False)
    prompt = messages[start]
    calls = [call for message in messages[start:] for call in message.tool_calls]
    results = {
        part.call_id: part for message in messages[start:] for part in message.parts if isinstance(part, ToolResultPart)
    }
    told = any(
        has_been_told(part.text) for message in messages[:start] for part in message.parts if isinstance(part, TextPart)
    )
    made = tuple(results.get(call.call_id) for call in calls)
    return _Turn(prompt.message_id, plan_steps(_words_of(prompt)), made, told)


def _words_of(prompt: Message) -> str:
    """The user's typed words; a mentioned file contributes only its name, since its content is data (invariant 8).

    An attached file, with no blank between it and the words in front of it, is no part of a command.
    """
    from pattern_acp.domain.messages import typed_parts

    words = ""
    for part in typed_parts(prompt.parts):
        if isinstance(part, TextPart):
            words += part.text
        elif isinstance(part, ResourcePart) and words[-1:].isspace():
            words += part.name
    return words


def _text(words: list[str]) -> tuple[ProviderEvent, ...]:
    return (TextDelta("\n\n".join(words)),) if words else ()


def _call_events(prompt_id: str, step: int, calls: tuple[PlannedCall, ...]) -> tuple[ProviderEvent, ...]:
    events: list[ProviderEvent] = []
    for index, call in enumerate(calls):
        # Derived from the prompt's id, so that it is unique in the session and the same on every replay.
        digest = sha256_hex(f"{prompt_id}/{step}/{index}".encode())[:24]
        events += (
            ToolCallBegun(index, f"offline_{digest}", call.tool),
            ToolCallFragment(index, json.dumps(call.arguments, ensure_ascii=False)),
        )
    return (*events, Stopped(ProviderStop.TOOL_CALLS))
