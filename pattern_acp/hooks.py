"""Commands of the user, or of a project they trust, that run at events of a session.

Owns: what such a command reads, its process and time limit, what its end means, and our tools in the words of their
scripts. Must not know: sessions, policy, who trusts what, or what an answer leads to. Events, keys and answers are
those of Claude Code's hooks, so that scripts written for it work; the source is its published documentation of hooks
(docs/how-to/hooks.md says what is the same).
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import cast

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from pattern_acp.config.settings import HookSettings
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.processes.groups import end_group, start_group

TEXT_CHARACTERS = 10_000
"""Most characters of context or of a reason that are taken from one hook."""

CONTEXT_EVENTS = frozenset({"SessionStart", "UserPromptSubmit"})
"""Events at which plain text on stdout is context for the model."""

BLOCKED = 2
"""The exit code that refuses; the reason is on stderr."""


class HookVerdict(Enum):
    """A hook's verdict on a call or an event, from the weakest to the strongest."""

    NONE = 0
    ALLOW = 1
    ASK = 2
    DENY = 3


_VERDICTS = {
    "allow": HookVerdict.ALLOW,
    "approve": HookVerdict.ALLOW,
    "ask": HookVerdict.ASK,
    "deny": HookVerdict.DENY,
    "block": HookVerdict.DENY,
}


class HookAnswer(Struct, frozen=True):
    """One hook's opinion; everything is optional."""

    verdict: HookVerdict = HookVerdict.NONE
    reason: str = ""
    context: str = ""
    """For the model."""
    message: str = ""
    """A message for the user."""
    updated_input: JsonObject | None = None
    """Arguments instead of the model's."""
    stops: bool = False
    """It wants the turn to end; `reason` says why."""
    problem: str = ""
    """Why there is no opinion, as the end of a sentence about the command."""


def answer_of(event: str, exit_code: int | None, stdout: str, stderr: str) -> HookAnswer:
    """The opinion of a command that ended on its own."""
    if exit_code == BLOCKED:
        return HookAnswer(HookVerdict.DENY, _cut(stderr) or "A hook refused this and gave no reason.")
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
        verdict=_VERDICTS.get(decision.lower(), HookVerdict.NONE) if isinstance(decision, str) else HookVerdict.NONE,
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
    """The joint opinion of all hooks of one event."""

    verdict: HookVerdict = HookVerdict.NONE
    reason: str = ""
    contexts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    updated_input: JsonObject | None = None
    stop: str = ""
    """Why the turn is to end; empty when it may continue."""


def together(answers: list[HookAnswer]) -> Opinion:
    """The strongest verdict with its reasons, everything else of all; of changed arguments the last."""
    verdict = max((answer.verdict for answer in answers), key=lambda each: each.value, default=HookVerdict.NONE)
    reasons = [answer.reason for answer in answers if answer.verdict is verdict and answer.reason]
    updated = [answer.updated_input for answer in answers if answer.updated_input is not None]
    stops = [answer.reason or "A hook ended the turn." for answer in answers if answer.stops]
    return Opinion(
        verdict,
        "\n".join(reasons),
        tuple(answer.context for answer in answers if answer.context),
        tuple(answer.message for answer in answers if answer.message),
        updated[-1] if updated and verdict is not HookVerdict.DENY else None,
        stops[0] if stops else "",
    )


TOOL_NAMES: Mapping[str, str] = {
    "run_command": "Bash",
    "edit_file": "Edit",
    "apply_patch": "Edit",
    "write_file": "Write",
    "read_file": "Read",
    "search_text": "Grep",
    "find_files": "Glob",
    "list_directory": "LS",
    "update_plan": "TodoWrite",
    "fetch_url": "WebFetch",
    "delegate": "Task",
}
"""Our name to theirs."""

ARGUMENT_NAMES: Mapping[str, Mapping[str, str]] = {
    "edit_file": {"path": "file_path"},
    "write_file": {"path": "file_path"},
    "read_file": {"path": "file_path", "start_line": "offset", "line_count": "limit"},
}
"""Our arguments to theirs; those of one name in both are not listed."""


def theirs(tool: str) -> str:
    """The name that a hook reads: of an MCP server's tool `mcp__server__tool`, as Claude Code writes it."""
    if tool in TOOL_NAMES:
        return TOOL_NAMES[tool]
    return f"mcp__{tool}" if "__" in tool else tool


def matches(matcher: str, tool: str) -> bool:
    """Tell whether a matcher, a regular expression over the whole name, matches the tool, by our name or theirs."""
    return not matcher or any(re.fullmatch(matcher, name) for name in (tool, theirs(tool)))


def input_for_hook(tool: str, arguments: JsonObject, folder: str) -> dict[str, Json]:
    """Arguments with our names and theirs side by side; a file's path is absolute under `file_path`."""
    told: dict[str, Json] = dict(arguments)
    for ours, other in ARGUMENT_NAMES.get(tool, {}).items():
        if ours in arguments:
            told[other] = arguments[ours]
    path = told.get("file_path")
    if isinstance(path, str) and not path.startswith(("/", "~", "file:")) and path[1:2] != ":":
        told["file_path"] = f"{folder}/{path}"
    edits = arguments.get("edits")
    if tool == "edit_file" and isinstance(edits, list | tuple) and len(edits) == 1 and isinstance(edits[0], Mapping):
        # Theirs knows one passage a call.
        told["old_string"] = edits[0].get("old_text", "")
        told["new_string"] = edits[0].get("new_text", "")
    return told


def input_from_hook(tool: str, before: JsonObject, told: JsonObject, answered: JsonObject) -> JsonObject:
    """The arguments after a hook changed them; `told` is what it got. Whichever spelling it changed counts."""
    changed: dict[str, Json] = dict(before)
    back = {other: ours for ours, other in ARGUMENT_NAMES.get(tool, {}).items()}
    for name, value in answered.items():
        ours = back.get(name, name)
        if value != told.get(name) and (ours in before or name not in back or ours not in answered):
            changed[ours] = value
    old, new = changed.pop("old_string", None), changed.pop("new_string", None)
    if tool == "edit_file" and (old is not None or new is not None):
        old = told.get("old_string", "") if old is None else old
        new = told.get("new_string", "") if new is None else new
        changed["edits"] = [{"old_text": old, "new_text": new}]
    return changed


logger = logging.getLogger(__name__)

OUTPUT_BYTES = 1_000_000
"""Most bytes that are stored of each output; what comes after is read and dropped."""

GRACE_SECONDS = 0.3
WATCH_SECONDS = 0.01
CLEANUP_SECONDS = 1.2
"""For ending a command with everything it started; a cancel is answered within 2 s (invariant 3)."""


class HookRunner(Struct, frozen=True):
    """Runs commands on this machine."""

    environment: Mapping[str, str]
    """The environment of hooks, without the keys of model providers."""
    shell: Callable[[str], Sequence[str] | str]
    """Returns the command that runs a line."""

    async def run_all(
        self, hooks: Sequence[HookSettings], payload: Mapping[str, Json], cwd: str
    ) -> list[tuple[HookSettings, HookAnswer]]:
        """Run commands side by side, each line once; the answers in the order of the hooks. Never fails."""
        distinct = list({hook.command: hook for hook in hooks}.values())
        answers: dict[int, HookAnswer] = {}

        async def one(position: int) -> None:
            answers[position] = await self.run(distinct[position], payload, cwd)

        async with anyio.create_task_group() as tasks:
            for position in range(len(distinct)):
                tasks.start_soon(one, position)
        return [(hook, answers[position]) for position, hook in enumerate(distinct)]

    async def run(self, hook: HookSettings, payload: Mapping[str, Json], cwd: str) -> HookAnswer:
        """Run one command with the payload on its stdin; at its time limit it has no opinion."""
        data = (json.dumps(payload) + "\n").encode()
        began = anyio.current_time()
        with anyio.move_on_after(hook.timeout_seconds):
            try:
                answer = await self._run(hook, data, cwd)
            except (OSError, ValueError) as error:
                answer = HookAnswer(problem=f"could not be started ({error})")
            took = anyio.current_time() - began
            logger.info("A hook of %s answered %s after %.2f s.", hook.event, answer.verdict.name, took)
            return answer
        return HookAnswer(problem=f"took longer than its {hook.timeout_seconds} s, so it was ended")

    async def _run(self, hook: HookSettings, data: bytes, cwd: str) -> HookAnswer:
        environment = {**self.environment, "CLAUDE_PROJECT_DIR": cwd, "PATTERN_PROJECT_DIR": cwd}
        process = await _start(self.shell(hook.command), cwd, environment)
        outputs = [bytearray(), bytearray()]
        try:
            async with anyio.create_task_group() as tasks:
                for stream, output in zip((process.stdout, process.stderr), outputs, strict=True):
                    if stream is not None:
                        tasks.start_soon(_collect, stream, output)
                await _feed(process, data)
                await _ended(process)
                # What it left running may hold the pipes open for ever.
                tasks.cancel_scope.deadline = anyio.current_time() + GRACE_SECONDS
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                await end_group(process, grace=GRACE_SECONDS)
                await process.aclose()
        stdout, stderr = (bytes(output).decode("utf-8", "replace") for output in outputs)
        return answer_of(hook.event, process.returncode, stdout, stderr)


async def _start(command: Sequence[str] | str, cwd: str, environment: Mapping[str, str]) -> Process:
    started: list[Process] = []
    # A cancellation in the middle of the start would lose the process.
    with anyio.CancelScope(shield=True):
        started.append(await start_group(command, cwd=cwd, env=environment))
    return started[0]


async def _feed(process: Process, data: bytes) -> None:
    if process.stdin is None:
        return
    try:
        await process.stdin.send(data)
        await process.stdin.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError, ConnectionResetError):
        # It does not read its input.
        return


async def _ended(process: Process) -> None:
    # Not `wait`: that waits for the pipes too, which a child may hold open.
    for _ in count():
        if process.returncode is not None:
            return
        await anyio.sleep(WATCH_SECONDS)


async def _collect(stream: ByteReceiveStream, output: bytearray) -> None:
    async for chunk in stream:
        output += chunk[: max(0, OUTPUT_BYTES - len(output))]
