"""The tool ask_user.

Owns: the words of the question and of its three ends: an answer, none, and a client that cannot show it. Must not
know: how a client shows it.
"""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import NoEffect, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolKind
from pattern_acp.policy.decision import UserQuestion
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolInputError, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments

MOST_OPTIONS = 4
LONGEST_OPTION = 120

UNSHOWN = (
    "The question could not be shown, or the user wants to answer in their own words. Put it with its options into "
    "your answer and end your turn: the next message is the answer."
)
UNANSWERED = "The user gave no answer. Decide yourself what is safest, and say what you assumed."


class AskUserArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ask_user."""

    question: Annotated[str, Meta(min_length=1)]
    options: Annotated[tuple[str, ...], Meta(description="2-4, best first.")] = ()


class AskUser:
    """Asks the user something that only they can decide."""

    spec = ToolSpec(
        "ask_user",
        "Ask the user a question; never for leave to call a tool.",
        input_schema(AskUserArguments),
    )
    kind = ToolKind.OTHER
    changes_things = False

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, AskUserArguments)
        options = tuple(dict.fromkeys(one_line(option, LONGEST_OPTION) for option in asked.options if option.strip()))
        if len(options) == 1 or len(options) > MOST_OPTIONS:
            raise ToolInputError(f"`options` must be 2 to {MOST_OPTIONS} different answers, or none for a free answer.")
        title = f"Ask: {one_line(asked.question)}"
        shown = TextContent("\n".join((asked.question, *(f"- {option}" for option in options))))
        view = ToolCallView(call_id, self.spec.name, title, self.kind, arguments, (), (shown,))
        question = UserQuestion(view, asked.question, options)
        return PreparedCall(title, (NoEffect(),), partial(_run, question, context), preview=(shown,))


async def _run(question: UserQuestion, context: ToolContext, _progress: Progress) -> ToolOutcome:
    answer = await context.put_question(question) if context.put_question is not None else None
    if answer:
        shown = (*question.call.content, TextContent(f"**{answer}**"))
        return ToolOutcome(f"The user answered: {answer}", content=shown, origin=Origin.PERSON)
    return ToolOutcome(UNSHOWN if answer is None else UNANSWERED, content=question.call.content)
