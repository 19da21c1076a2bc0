"""How the `offline` provider says what happened.

Owns: its sentences. It says what it did and what came back, and never more than that. Must not know: how calls
are made.
"""

import re
from collections.abc import Sequence
from typing import assert_never

from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.providers.offline_commands import (
    Command,
    FindText,
    ListDirectory,
    ReadFile,
    Recall,
    Remember,
    ReplaceText,
    RunCommand,
)
from pattern_acp.providers.offline_steps import Call, Step

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
    """Whether an earlier answer says what to do without a model."""
    return HOW_TO_CONFIGURE in answer


def describe_unavailable(step: Step) -> str:
    """One sentence for a command whose tool is not offered."""
    tool = step.calls[0].tool if step.calls else "a tool"
    return f"I left out “{_title(step.command)}”: {tool} is not offered in this mode."


def describe_result(
    step: Step, calls: Sequence[Call], results: Sequence[ToolResultPart | None], *, told: bool = False
) -> str:
    """What came of a step, in words; `told` is whether the person was told in this session how to set up a model."""
    if step.command is None:
        return _describe_look_up(calls, results, told=told)
    result = results[0] if results else None
    if result is None:
        return f"“{_title(step.command)}” gave no result."
    if result.is_error:
        return f"“{_title(step.command)}” did not work:\n\n{_block(result.text, SHOWN_CHARS)}"
    return _describe_success(step.command, result.text)


def _describe_success(command: Command, text: str) -> str:
    shown = _block(text, SHOWN_CHARS)
    match command:
        case ReadFile(path):
            return f"`{path}`:\n\n{shown}"
        case ListDirectory(path):
            return f"In `{path}`:\n\n{shown}"
        case FindText(found):
            return f"Looking for “{found}”:\n\n{shown}"
        case RunCommand(line):
            return f"`{line}`:\n\n{shown}"
        case ReplaceText(_, _, path):
            return f"I replaced the text in `{path}`."
        case Remember(_, label):
            return f"I wrote it down in the memory block `{label}`."
        case Recall(query):
            return f"What memory holds about “{query}”:\n\n{_block(_plain_hits(text), SHOWN_CHARS)}"
    assert_never(command)


def _describe_look_up(calls: Sequence[Call], results: Sequence[ToolResultPart | None], *, told: bool) -> str:
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


def _shown(call: Call, text: str) -> str:
    return _plain_hits(text) if call.tool == "memory_search" else text


def _plain_hits(text: str) -> str:
    """Hits without what only a model needs: the ids of sessions, and the reasons of their order."""
    return _HIT_HEAD.sub(lambda head: f"[{_SESSION_ID.sub('', head[1])}]", text)


def _has_hits(text: str) -> bool:
    """Tools say "No …" or "Nothing …" when there is nothing."""
    return not text.strip().lower().startswith(("no ", "nothing", "0 ")) and bool(text.strip())


def _title(command: Command | None) -> str:
    match command:
        case ReadFile(path):
            return f"read {path}"
        case ListDirectory(path):
            return f"list {path}"
        case FindText(text):
            return f"find {text}"
        case RunCommand(line):
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
