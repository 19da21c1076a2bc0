"""What a hook's end means.

Owns: exit codes and the JSON of stdout. Must not know: how the command ran, or what is done with its opinion.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import cast

from msgspec import Struct

from pattern_acp.domain.canonical import JsonObject

TEXT_CHARACTERS = 10_000
"""Most characters of context or of a reason that are taken from one hook."""

CONTEXT_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events at which plain text on stdout is context for the model."""

BLOCKED = 2
"""The exit code that refuses; the reason stands on stderr."""


class Verdict(Enum):
    """What a hook thinks of a call or an event, from the weakest to the strongest."""

    NONE = 0
    ALLOW = 1
    ASK = 2
    DENY = 3


_VERDICTS = {
    "allow": Verdict.ALLOW,
    "approve": Verdict.ALLOW,
    "ask": Verdict.ASK,
    "deny": Verdict.DENY,
    "block": Verdict.DENY,
}


class HookAnswer(Struct, frozen=True):
    """One hook's opinion; everything is optional."""

    verdict: Verdict = Verdict.NONE
    reason: str = ""
    context: str = ""
    """For the model."""
    message: str = ""
    """For the person."""
    updated_input: JsonObject | None = None
    """Arguments in the place of the model's."""
    stops: bool = False
    """It wants the turn to end; `reason` says why."""
    problem: str = ""
    """Why there is no opinion, as the end of a sentence about the command."""


def answer_of(event: str, exit_code: int | None, stdout: str, stderr: str) -> HookAnswer:
    """The opinion of a command that ended by itself."""
    if exit_code == BLOCKED:
        return HookAnswer(Verdict.DENY, _cut(stderr) or "A hook refused this and gave no reason.")
    if exit_code != 0:
        said = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
        ended = f"ended with exit code {exit_code}" if exit_code is not None and exit_code > 0 else "was ended"
        return HookAnswer(problem=f"{ended} ({said[:200]})" if said else ended)
    text = stdout.strip()
    if not text.startswith("{"):
        return HookAnswer(context=_cut(text) if event in CONTEXT_EVENTS else "")
    try:
        answer: object = json.loads(text)
    except (ValueError, RecursionError):
        if event in CONTEXT_EVENTS:
            return HookAnswer(context=_cut(text))
        return HookAnswer(problem="wrote JSON that cannot be read")
    return _of_json(cast("Mapping[str, object]", answer)) if isinstance(answer, Mapping) else HookAnswer()


def _of_json(answer: Mapping[str, object]) -> HookAnswer:
    raw = answer.get("hookSpecificOutput")
    special: Mapping[str, object] = cast("Mapping[str, object]", raw) if isinstance(raw, Mapping) else answer
    decision = special.get("permissionDecision", answer.get("permissionDecision", answer.get("decision")))
    stops = answer.get("continue") is False
    reasons = (
        special.get("permissionDecisionReason"),
        answer.get("permissionDecisionReason"),
        answer.get("stopReason") if stops else None,
        answer.get("reason"),
    )
    updated = special.get("updatedInput", answer.get("updatedInput"))
    return HookAnswer(
        verdict=_VERDICTS.get(decision.lower(), Verdict.NONE) if isinstance(decision, str) else Verdict.NONE,
        reason=next((_cut(reason) for reason in reasons if isinstance(reason, str) and reason.strip()), ""),
        context=_text(special.get("additionalContext", answer.get("additionalContext"))),
        message=_text(answer.get("systemMessage")),
        updated_input=cast("JsonObject", updated) if isinstance(updated, Mapping) else None,
        stops=stops,
    )


def _text(value: object) -> str:
    return _cut(value) if isinstance(value, str) else ""


def _cut(text: str) -> str:
    text = text.strip()
    if len(text) <= TEXT_CHARACTERS:
        return text
    return f"{text[:TEXT_CHARACTERS]}\n[{len(text) - TEXT_CHARACTERS} characters were left out.]"


class Opinion(Struct, frozen=True):
    """What all hooks of one event think together."""

    verdict: Verdict = Verdict.NONE
    reason: str = ""
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    updated_input: JsonObject | None = None
    stop: str = ""
    """Why the turn is to end; empty when it may go on."""


def together(answers: list[HookAnswer]) -> Opinion:
    """The strongest verdict with its reasons, everything else of all; of changed arguments the last."""
    verdict = max((answer.verdict for answer in answers), key=lambda each: each.value, default=Verdict.NONE)
    reasons = [answer.reason for answer in answers if answer.verdict is verdict and answer.reason]
    updated = [answer.updated_input for answer in answers if answer.updated_input is not None]
    stops = [answer.reason or "A hook ended the turn." for answer in answers if answer.stops]
    return Opinion(
        verdict,
        "\n".join(reasons),
        tuple(answer.context for answer in answers if answer.context),
        tuple(answer.message for answer in answers if answer.message),
        updated[-1] if updated and verdict is not Verdict.DENY else None,
        stops[0] if stops else "",
    )
