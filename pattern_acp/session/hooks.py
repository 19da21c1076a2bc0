"""The hooks of a session: those of the user, and those of the project while it is trusted.

Owns: which run at which event, what they learn of the session, and how their words reach the user and the model.
Must not know: how a command runs, or how a verdict changes policy (`turn/tool_runner.py`).
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.tool_calls import DiffContent, StopReason, ToolCallView, ToolKind
from pattern_acp.hooks import (
    HookAnswer,
    HookVerdict,
    Opinion,
    input_for_hook,
    input_from_hook,
    matches,
    theirs,
    together,
)
from pattern_acp.journal.events import PromptRefused
from pattern_acp.policy.decision import Mode
from pattern_acp.session.instructions import note_files_in_hand
from pattern_acp.session.state import Addition
from pattern_acp.session.trust import confirm_trust
from pattern_acp.tools.base import ToolOutcome
from pattern_acp.turn.loop import TurnEnd, show_sentence
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.config.settings import HookSettings
    from pattern_acp.session.ports import ExtendedDialogue
    from pattern_acp.session.state import FolderTrust, InjectionQueue, SessionState

logger = logging.getLogger(__name__)

MOST_CONTINUATIONS = 5
"""Number of times that hooks may let one turn continue after the model ended it."""

PERMISSION_MODES = {
    Mode.ASK: "default",
    Mode.EDIT: "acceptEdits",
    Mode.PLAN: "plan",
    Mode.AUTO: "bypassPermissions",
}
"""Our modes in the words that scripts for Claude Code know."""


def hooks_in_force(state: "SessionState", trust: "FolderTrust") -> "tuple[HookSettings, ...]":
    """The user's hooks, then those of the project if the user trusts it."""
    return (*state.settings.hooks, *trust.in_force.hooks)


async def run_event(
    dialogue: "ExtendedDialogue", turn_id: TurnId, event: str, told: Mapping[str, Json], *, subject: str = ""
) -> Opinion:
    """Run the hooks of an event and hear what they think; their words for the user are shown.

    Args:
        dialogue: whose hooks.
        turn_id: the turn it happens in.
        event: one of `config.programs.EVENTS`.
        told: the payload beyond what every event has.
        subject: what a matcher is held against: a tool's name, or how a session starts.
    """
    runner = dialogue.shared.hooks
    if _chosen(dialogue.trust.in_force.hooks, event, subject):
        await confirm_trust(dialogue)
    chosen = _chosen(hooks_in_force(dialogue.state, dialogue.trust), event, subject)
    if runner is None or not chosen:
        return Opinion()
    payload: dict[str, Json] = {
        "session_id": dialogue.session_id,
        "transcript_path": "",
        "cwd": dialogue.state.cwd,
        "permission_mode": PERMISSION_MODES[dialogue.state.policy.mode],
        "hook_event_name": event,
        **told,
    }
    answers = await runner.run_all(chosen, payload, dialogue.state.cwd)
    for hook, answer in answers:
        if answer.problem:
            _tell_once(dialogue.state, f"The {event} hook `{_short(hook.command)}` {answer.problem}; it had no say.")
    of_project = dialogue.trust.in_force.hooks
    opinion = together([_without_allowance(answer) if hook in of_project else answer for hook, answer in answers])
    for message in opinion.messages:
        await show_sentence(dialogue.recorder, turn_id, dialogue.shared.ids, f"> {message}\n\n")
    return opinion


def _without_allowance(answer: HookAnswer) -> HookAnswer:
    """Trust lets a project's hooks run, and grants nothing: what would be asked still is."""
    return replace(answer, verdict=HookVerdict.NONE, reason="") if answer.verdict is HookVerdict.ALLOW else answer


def _chosen(hooks: "Sequence[HookSettings]", event: str, subject: str) -> "list[HookSettings]":
    return [hook for hook in hooks if hook.event == event and matches(hook.matcher, subject)]


def _tell_once(state: "SessionState", sentence: str) -> None:
    logger.warning("%s", sentence)
    if sentence not in state.hooks.told:
        state.hooks.told.add(sentence)
        state.notices.append(sentence)


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def _wait_with(queue: "InjectionQueue | SessionState", event: str, opinion: Opinion) -> None:
    for text in opinion.contexts:
        queue.waiting.append(Addition("hook", f"A {event} hook added context", text, f"{event} hook"))


async def before_prompt(dialogue: "ExtendedDialogue", turn_id: TurnId) -> TurnEnd | None:
    """Run the hooks of the session's start and of the prompt; the turn's end when they refuse the prompt.

    Raises:
        DatabaseError: the refusal could not be recorded.
    """
    prompt, state = dialogue.state.history[-1], dialogue.state.hooks
    if not hooks_in_force(dialogue.state, dialogue.trust):
        state.started = True
        return None
    if not state.started:
        state.started = True
        source = "startup" if len(dialogue.state.history) == 1 else "resume"
        opinion = await run_event(dialogue, turn_id, "SessionStart", {"source": source}, subject=source)
        _wait_with(dialogue.state, "SessionStart", opinion)
    opinion = await run_event(dialogue, turn_id, "UserPromptSubmit", {"prompt": prompt.text})
    reason = opinion.reason if opinion.verdict is HookVerdict.DENY else opinion.stop
    if not reason and opinion.verdict is not HookVerdict.DENY:
        _wait_with(dialogue.state, "UserPromptSubmit", opinion)
        return None
    dialogue.state.waiting.clear()
    dialogue.state.history.remove(prompt)
    await dialogue.recorder.record(NewEvent(PromptRefused(turn_id, reason), Actor.SYSTEM, Origin.COMMAND))
    why = reason or "it gave no reason"
    return TurnEnd(StopReason.END_TURN, f"A hook refused this prompt, so the model was not sent it: {why}")


async def after_answer(dialogue: "ExtendedDialogue", turn_id: TurnId, *, active: bool) -> bool:
    """Run the hooks of the turn's end; whether they want it to continue, with their reason as what comes next."""
    opinion = await run_event(dialogue, turn_id, "Stop", {"stop_hook_active": active})
    return _goes_on(dialogue.state, "Stop", opinion)


async def after_report(
    dialogue: "ExtendedDialogue", turn_id: TurnId, queue: "InjectionQueue", *, kind: str, active: bool
) -> bool:
    """Run the hooks of a subagent's end; whether they want it to continue, with their reason as what comes next."""
    told: dict[str, Json] = {"stop_hook_active": active, "agent_type": kind}
    opinion = await run_event(dialogue, turn_id, "SubagentStop", told, subject=kind)
    return _goes_on(queue, "SubagentStop", opinion)


def _goes_on(queue: "InjectionQueue | SessionState", event: str, opinion: Opinion) -> bool:
    if opinion.verdict is not HookVerdict.DENY or opinion.stop:
        return False
    reason = opinion.reason or "Continue; a hook does not take this for finished."
    queue.waiting.append(Addition("hook", f"A {event} hook wants the turn to continue", reason, f"{event} hook"))
    return True


class SessionToolHooks:
    """`turn.tool_runner.ToolHooks` of one turn; a call that ran may also bring the instructions of its folder."""

    def __init__(self, dialogue: "ExtendedDialogue", queue: "InjectionQueue | None" = None) -> None:
        """`queue` is the conversation that makes the calls, the session's unless one is passed."""
        self.stop = ""
        self._dialogue = dialogue
        self._heard_by = queue or dialogue.state

    async def before(self, turn_id: TurnId, call: ToolCallView) -> Opinion:
        """See `ToolHooks.before`."""
        heard: list[Opinion] = []
        for told in self._inputs(call):
            name = hooked_name(call)
            payload: dict[str, Json] = {"tool_name": theirs(name), "tool_input": told, "tool_use_id": call.call_id}
            opinion = await run_event(self._dialogue, turn_id, "PreToolUse", payload, subject=name)
            _wait_with(self._heard_by, "PreToolUse", opinion)
            updated = opinion.updated_input
            if opinion.stop:
                self.stop = opinion.stop
                return Opinion(HookVerdict.DENY, opinion.stop)
            if opinion.verdict is HookVerdict.DENY:
                return Opinion(opinion.verdict, opinion.reason)
            if updated is not None:
                updated = input_from_hook(call.name, call.raw_input, told, updated)
            heard.append(Opinion(opinion.verdict, opinion.reason, updated_input=updated))
        return of_all_files(heard)

    def _inputs(self, call: ToolCallView) -> list[dict[str, Json]]:
        """Arguments of a call for hooks: of a patch once for each file, since scripts look at one path."""
        told = input_for_hook(call.name, call.raw_input, self._dialogue.state.cwd)
        paths = dict.fromkeys(item.path for item in call.content if isinstance(item, DiffContent))
        if call.name not in {"apply_patch", "code_map"} or not paths:
            return [told]
        return [{**told, "file_path": path} for path in paths]

    async def after(self, turn_id: TurnId, call: ToolCallView, outcome: ToolOutcome) -> str:
        """See `ToolHooks.after`."""
        locations = (*call.locations, *outcome.locations)
        if self._dialogue.shared.elsewhere is None:
            await note_files_in_hand(self._dialogue.state, call.kind, locations, self._heard_by)
        said: list[str] = []
        for told in self._inputs(call):
            payload: dict[str, Json] = {
                "tool_name": theirs(hooked_name(call)),
                "tool_input": told,
                "tool_response": response_for_hook(call, outcome),
                "tool_use_id": call.call_id,
            }
            opinion = await run_event(self._dialogue, turn_id, "PostToolUse", payload, subject=hooked_name(call))
            self.stop = self.stop or opinion.stop
            if opinion.verdict is HookVerdict.DENY and opinion.reason:
                said.append(opinion.reason)
            said += opinion.contexts
        return "".join(f"\n\n[A hook says after this call: {text}]" for text in said)


def hooked_name(call: ToolCallView) -> str:
    """The tool that hooks learn of: renaming changes files as a patch does, though another tool does it."""
    return "apply_patch" if call.name == "code_map" and call.kind is ToolKind.EDIT else call.name


def of_all_files(heard: list[Opinion]) -> Opinion:
    """One opinion of those on each file of a call, none of which refuses it: allowed is what all allow."""
    strictest = next((opinion for opinion in heard if opinion.verdict is HookVerdict.ASK), heard[0])
    updated = [opinion.updated_input for opinion in heard if opinion.updated_input is not None]
    verdict = strictest.verdict
    if verdict is HookVerdict.ALLOW and any(opinion.verdict is not HookVerdict.ALLOW for opinion in heard):
        verdict = HookVerdict.NONE
    return Opinion(verdict, strictest.reason, updated_input=updated[-1] if updated else None)


def response_for_hook(call: ToolCallView, outcome: ToolOutcome) -> dict[str, Json]:
    """Result of a call, under the keys that scripts look for."""
    told: dict[str, Json] = {"success": not outcome.is_error, "content": outcome.text}
    if call.name == "run_command":
        told |= {"stdout": outcome.text, "stderr": "", "interrupted": False}
    if call.locations:
        told["filePath"] = call.locations[0].path
    return told
