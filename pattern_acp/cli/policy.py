"""`pattern-acp policy` and `trust`: rules checked and tried, decisions explained, permissions and trust taken back.

Owns: how answers are printed, which folder is meant, and the question before it is trusted. It runs nothing. Must not
know: how a decision is reached.
"""

import sys
import tomllib
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import anyio
import anyio.to_thread
import msgspec

from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Policy
from pattern_acp.cli.command_runner import (
    full_id,
    open_for_command,
    refuse_if_lost,
    show_answer,
    show_result,
)
from pattern_acp.cli.output import agreed, write_error, write_line
from pattern_acp.commands.document import Fence, Paragraph, Part, Result, as_result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.policy_rules import RuleError, parse_rule, read_policy_rules
from pattern_acp.config.settings import PolicyRule, PolicySettings
from pattern_acp.config.toml_file import TomlFile, is_table, read_toml
from pattern_acp.domain.access import RunCommand
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SystemClock, local_hour
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.project_parts import ProjectPart
from pattern_acp.domain.text_limits import plural
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import Circumstances, Decision, Mode, Verdict
from pattern_acp.policy.layers import layer_of, what_would_change
from pattern_acp.policy.reading import git_folders, surely_reads
from pattern_acp.processes.confinement import Confinement
from pattern_acp.session.state import sandbox_name
from pattern_acp.session.trust import TrustDesk, TrustedFolders
from pattern_acp.trust import Agreement, count_parts, describe_changes, describe_parts
from pattern_acp.turn.permissions import resolved
from pattern_acp.workspace.git import git_facts, program_setting

CIRCUMSTANCES = ("branch", "hour", "requests", "minutes")
"""Circumstances that a case of a table may name; rules that ask or deny count those that it does not as met."""


class WrongPolicyError(PatternError):
    """A file or rule that cannot be used."""

    failure_code = "cli.usage"


def run_policy(arguments: Policy, process: Process) -> int:
    """Carry it out; 1 when a file has problems or a case of a table is not as expected.

    Raises:
        PatternError: a rule or a file cannot be read.
    """
    match arguments.action:
        case "check":
            return show_answer(_checked(arguments.text), process, as_json=arguments.json)
        case "test":
            return show_answer(_tried(arguments.text, process), process, as_json=arguments.json)
        case "grants":
            return _grants(arguments, process)
        case "verify":
            return _verify(arguments, process)
        case _:
            return _explain(arguments, process)


def _grants(arguments: Policy, process: Process) -> int:
    from pattern_acp.session.permission_commands import GrantDesk, Permissions, list_lasting, revoke

    async def carry_out() -> Result:
        async with open_for_command(process) as database:
            desk = GrantDesk(database, SystemClock())
            return await (revoke(desk, arguments.number) if arguments.number else list_lasting(desk))

    path = process.constellation_path
    if not path.exists() and not arguments.number:
        refuse_if_lost(path)
        result: Result = Permissions()
    else:
        result = anyio.run(carry_out)
    show_result(result, TypedCommand("policy", "grants", shared={"json": arguments.json}), process)
    return EXIT_OK


def _verify(arguments: Policy, process: Process) -> int:
    from pattern_acp.session.permission_commands import Verified, verify_decisions

    async def carry_out() -> Verified:
        async with open_for_command(process) as database:
            return await verify_decisions(database, await full_id(database, arguments.text))

    refuse_if_lost(process.constellation_path)
    result = anyio.run(carry_out)
    show_result(result, TypedCommand("policy", "verify", shared={"json": arguments.json}), process)
    return EXIT_ERROR if result.is_failure else EXIT_OK


class RulesReport(Result, frozen=True):
    """Problems of a file of rules or of its cases, each in a sentence, or the sentence when there are none."""

    problems: tuple[str, ...]
    well: str = ""

    @property
    def document(self) -> Sequence[Part]:
        """A line for each problem, as it is: a command line may have backticks."""
        return (Fence("\n".join(self.problems)) if self.problems else Paragraph(self.well),)

    @property
    def value(self) -> object:
        """`ok`, and the problems."""
        return {"ok": not self.problems, "problems": self.problems}

    @property
    def is_failure(self) -> bool:
        """True when something is wrong."""
        return bool(self.problems)


def _checked(name: str) -> RulesReport:
    rules, problems = _rules_of_file(name)
    return RulesReport(tuple(problems), f"{plural(len(rules), 'rule')}, all of which can be used.")


def _rules_of_file(name: str) -> tuple[tuple[PolicyRule, ...], list[str]]:
    path = Path(name).absolute()
    if not path.is_file():
        raise WrongPolicyError(f"There is no file {path}.")
    file, problems = read_toml(path)
    own = path.parent.name != ".pattern"
    nothing = TomlFile("")
    rules, wrong = read_policy_rules(file if own else nothing, nothing if own else file, str(Path.home()))
    return rules, [str(problem) for problem in (*problems, *wrong)]


class _Policy:
    """The mode, the rules, and the current folder as the root of a session."""

    def __init__(
        self,
        mode: str,
        rules: Sequence[PolicyRule],
        *,
        reading_asks: bool,
        sandbox: str = "",
        around: Circumstances | None = None,
    ) -> None:
        """Without `around`, the circumstances are those of now, and what a turn has left is unknown."""
        self.mode = Mode(mode)
        self.rules = tuple(rules)
        self.reading_asks = reading_asks
        self.sandbox = sandbox
        self.root = resolve_path(str(Path.cwd()))
        now = SystemClock().now_ms()
        self.around = around or Circumstances(branch=git_facts(self.root).branch, hour=local_hour(now))

    def decide(self, line: str) -> Decision:
        """Return the decision on one command line."""
        setting = program_setting(git_folders(line, self.root)) if surely_reads(line, confined=True) else ""
        access = RunCommand(line, self.root, setting)
        return decide(
            [access],
            mode=self.mode,
            roots=[self.root],
            resolve=resolved,
            sandbox=self.sandbox,
            reading_asks=self.reading_asks,
            rules=self.rules,
            around=self.around,
        )


def _policy(arguments: Policy, process: Process) -> _Policy:
    loaded = process.load_project(str(Path.cwd()))
    policy = loaded.settings.policy
    for problem in loaded.problems:
        if problem.key.startswith("policy."):
            write_error(f"pattern-acp: {problem}")
    rules = (*policy.rules, *map(_added, arguments.allow))
    reading_asks = policy.reading_commands == "ask"
    return _Policy(loaded.settings.mode, rules, reading_asks=reading_asks, sandbox=anyio.run(_sandbox_name, policy))


async def _sandbox_name(policy: PolicySettings) -> str:
    """The name by which decisions of a session on this machine know its sandbox."""
    if policy.sandbox == "off":
        return ""
    with TemporaryDirectory(prefix="pattern-acp-") as folder:
        found = await Confinement(Path(folder)).find()
    return sandbox_name(policy, found.name)


def _added(text: str) -> PolicyRule:
    try:
        rule = parse_rule("allow", text)
    except RuleError as error:
        raise WrongPolicyError(f"--allow, column {error.column}: {error.sentence}.") from error
    return PolicyRule(rule.effect, rule.kind, rule.pattern, rule.reason, "session")


def _explain(arguments: Policy, process: Process) -> int:
    policy = _policy(arguments, process)
    text = arguments.text
    lines = _typed(nul=arguments.nul) if text in {"-", ""} else iter([text])
    for line in lines:
        decision = policy.decide(line)
        parts = (
            Paragraph(f"{decision.verdict}: {decision.reason}"),
            Paragraph(f"layer {layer_of(decision)}, rule {decision.source or decision.rule}, {_confined(decision)}"),
            Paragraph(f"What would change this decision: {what_would_change(decision)}"),
        )
        facts = _described(line, policy.mode, decision)
        show_answer(as_result(*parts, facts=facts), process, as_json=arguments.json or text in {"-", ""})
    return EXIT_OK


def _typed(*, nul: bool) -> Iterator[str]:
    """The command lines of stdin, each a line or ended by NUL."""
    whole = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    pieces = whole.split("\0") if nul else whole.split("\n")
    yield from pieces[:-1] if pieces and not pieces[-1] else pieces


def _described(line: str, mode: Mode, decision: Decision) -> JsonObject:
    return {
        "command": line,
        "mode": mode.value,
        "decision": decision.verdict.value,
        "layer": layer_of(decision).value,
        "rule": decision.source or decision.rule,
        "reason": decision.reason,
        "sandboxed": bool(decision.sandbox),
    }


def _confined(decision: Decision) -> str:
    return f"in the sandbox ({decision.sandbox})" if decision.sandbox else "outside the sandbox"


def _tried(name: str, process: Process) -> RulesReport:
    """Decide on each case of the file's `[[case]]` and compare with what it expects."""
    rules, problems = _rules_of_file(name)
    if problems:
        raise WrongPolicyError(problems[0])
    table = tomllib.loads(Path(name).read_text("utf-8-sig"))
    cases = table.get("case")
    if not isinstance(cases, list) or not cases:
        raise WrongPolicyError("The file has no [[case]]: each has `run`, `expect` and perhaps `mode`.")
    failed: list[str] = []
    for number, case in enumerate(cast("list[object]", cases), 1):
        values = cast("dict[str, object]", case) if is_table(case) else {}
        line, expected, mode = values.get("run"), values.get("expect"), values.get("mode", "ask")
        if not isinstance(line, str) or expected not in set(Verdict) or mode not in set(Mode):
            raise WrongPolicyError(f"Case {number} needs `run`, an `expect` of allow, ask or deny, and a known `mode`.")
        try:
            around = msgspec.convert({key: values[key] for key in CIRCUMSTANCES if key in values}, Circumstances)
        except msgspec.ValidationError as error:
            wanted = "`branch` as text, and `hour`, `requests` and `minutes` as numbers"
            raise WrongPolicyError(f"Case {number} needs {wanted}.") from error
        reading_asks = process.loaded.settings.policy.reading_commands == "ask"
        policy = _Policy(str(mode), rules, reading_asks=reading_asks, around=around)
        decision = policy.decide(line)
        if decision.verdict.value != expected:
            is_now = f"expected {expected}, is {decision.verdict}: {decision.reason}"
            failed.append(f"case {number}: `{line}` in {mode}: {is_now}")
    return RulesReport(tuple(failed), "All cases are as expected.")


BRINGS_NOTHING = (
    "It brings nothing that would run. Once you trust it, its files count as your own: what the agent remembers after "
    "reading them is written without a question."
)


@asynccontextmanager
async def open_trust(call: TypedCommand, process: Process) -> AsyncGenerator[TrustDesk, None]:
    """Open the services of the verbs. Raises PatternError where the constellation cannot be used."""
    del call

    async def offered(root: str) -> tuple[ProjectPart, ...]:
        if not await anyio.Path(root).is_dir():
            raise PatternError(f"{root} is no folder.", failure_code="cli.file-unusable")
        return (await anyio.to_thread.run_sync(read_project, process, root)).offer.parts

    async with open_for_command(process) as database:
        yield TrustDesk(database, SystemClock(), folder_meant, offered, _agrees)


def without_constellation(call: TypedCommand) -> TrustedFolders:
    """The folders that are trusted as long as nothing was recorded: none."""
    del call
    return TrustedFolders()


def folder_meant(path: str) -> str:
    """The folder of a command line with symbolic links followed; the current one when none is named."""
    return resolve_path(str(Path(path or ".").absolute()))


async def _agrees(root: str, parts: Sequence[ProjectPart], before: Agreement | None, sure: bool) -> bool:  # noqa: FBT001  a port
    from pattern_acp.cli.chat.calls import plain_text

    shown = describe_changes(before.parts, parts) if before is not None else describe_parts(parts)
    if not parts:
        shown = f"{shown}\n{BRINGS_NOTHING}".strip()
    write_line(plain_text(shown, None))
    if sure:
        return True
    wanted = f"{root} to run {count_parts(parts)} as you" if parts else f"the files of {root}"
    unasked = "pattern-acp: nothing was changed; say --yes to trust this without a question."
    return agreed(f"\nTrust {wanted}?", unasked)
