"""What a model wrote as a call -> the tool and the arguments that it means.

Owns: how near a call may be to a valid one, and the sentences for those that are not near enough. Must not know: how a
call runs.
"""

import json
from collections.abc import Collection, Mapping

from msgspec import Struct

from pattern_acp.domain.argument_repair import fit_to_schema, meant_name, read_object
from pattern_acp.domain.canonical import JsonObject, is_deeper
from pattern_acp.domain.messages import ToolCallPart
from pattern_acp.domain.text_limits import SHOWN_NAME
from pattern_acp.tools.base import Tool, ToolInputError

MOST_LEVELS = 32
"""Deepest nesting of arguments. No tool needs more than a few, and clients whose parser stops at 128 levels (serde_json
does) refuse the whole line that shows them."""

NAMED_TOOLS = 40
"""Most tools that an error names; MCP servers may bring hundreds."""


CUT = "This call was cut at "
"""How the problem of a call begins that the limit of its answer cut; a replay has only these words to tell it by."""

WRITERS = ("write_file", "edit_file", "apply_patch")
"""The tools whose calls are long because a file is."""


class CallCutError(ToolInputError):
    """The answer reached its limit in the middle of the call."""

    failure_code = "tool.call-cut"


def cut_problem(name: str, tokens: int, offered: Collection[str], *, window_full: bool = False) -> str:
    """What the model is told of its call of `name` that was cut after so many tokens, beside the tools it has.

    `window_full`: what cut it was the context window.
    """
    limit = "where the context window was full" if window_full else "the limit of one answer"
    cut = f"{CUT}{tokens:,} tokens, {limit}, before it was complete, and nothing of it was done."
    if name not in WRITERS:
        return f"{cut} Make the call shorter, or do the work in several smaller calls."
    edit = "apply_patch" if "edit_file" not in offered and "apply_patch" in offered else "edit_file"
    return (
        f"{cut} Write the file in smaller pieces: its first part with write_file, then append one part after the "
        f"other with {edit}, each in an answer of its own."
    )


def was_cut(call: ToolCallPart) -> bool:
    """Whether the limit of its answer cut the call."""
    return call.problem.startswith(CUT)


class ReadCall(Struct, frozen=True):
    """A call as it was meant. `repairs` says in phrases what had to be mended, without values."""

    tool: Tool
    arguments: JsonObject
    repairs: tuple[str, ...] = ()


def read_call(call: ToolCallPart, tools: Mapping[str, Tool], withheld: Collection[str] = ()) -> ReadCall:
    """The tool that a call names and its arguments, near-valid ones mended.

    `withheld` names the tools that the model knows and that the command of this turn does not allow.

    Raises:
        ToolInputError: there is no such tool, it is withheld, or the arguments are no JSON object.
        CallCutError: the call was cut.
    """
    if was_cut(call):
        raise CallCutError(call.problem)
    if call.problem:
        raise ToolInputError(call.problem)
    tool = find_tool(call.name, tools)
    if tool is None:
        known = sorted(tools)
        names = ", ".join(known[:NAMED_TOOLS]) + (" and more" if len(known) > NAMED_TOOLS else "")
        shown = call.name if len(call.name) <= SHOWN_NAME else f"{call.name[:SHOWN_NAME]}…"
        if call.name in withheld or meant_name(call.name, withheld):
            # replay/session_replay.py reads both sentences.
            raise ToolInputError(f"The tool {shown!r} is not allowed in this command; the tools are {names}.")
        raise ToolInputError(f"There is no tool named {shown!r}; the tools are {names}.")
    renamed = (f"read a misspelt name as the tool {tool.spec.name}",) if tool.spec.name != call.name else ()
    arguments, repairs = _arguments(call.arguments)
    fitted = fit_to_schema(arguments, tool.spec.input_schema)
    return ReadCall(tool, fitted.value, (*renamed, *repairs, *fitted.repairs))


def find_tool(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool of a name, also of one in another case; None when there is none, or more than one."""
    return tools.get(name) or tools.get(meant_name(name, tools))


def lenient_arguments(text: str) -> JsonObject:
    """The argument object for showing, or the raw text under `arguments` when it is none."""
    try:
        return _arguments(text)[0]
    except ToolInputError:
        return {"arguments": text}


def _arguments(text: str) -> tuple[JsonObject, tuple[str, ...]]:
    try:
        read = read_object(text)
    except (ValueError, RecursionError) as error:
        raise ToolInputError(_sentence(text)) from error
    if is_deeper(read.value, MOST_LEVELS):
        raise ToolInputError(
            f"The arguments are nested in more than {MOST_LEVELS} levels; send an object that fits the tool's schema."
        )
    return read.value, read.repairs


def _sentence(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "The arguments are not valid JSON; send one JSON object that fits the tool's schema."
    return "The arguments must be one JSON object that fits the tool's schema."
