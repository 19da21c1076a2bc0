"""Rules of the user and of projects, applied to accesses.

Owns: what a rule covers, and how rules change a decision. Must not know: where rules are written, how they are read.
An allowance covers as little as possible: every command of a line has to match, and nothing that asks for another
reason than the mode is loosened. `ask` and `deny` reach as far as possible: one matching command of the line suffices.
So with conditions: what is not known counts as met by those that ask and deny, and not by those that allow.
"""

import shlex
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec.structs import replace

from pattern_acp.config.settings import PolicyRule, RuleCondition
from pattern_acp.domain.access import Access, CallServer, FetchUrl, ReadPath, RunCommand, WritePath
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.policy.command_paths import changed_files, command_targets
from pattern_acp.policy.commands import SimpleCommand, read_command_line
from pattern_acp.policy.decision import Circumstances, Decision, Verdict
from pattern_acp.policy.grant_matching import doing_commands, is_plain
from pattern_acp.policy.layers import HABITS
from pattern_acp.policy.nested_lines import effective_commands
from pattern_acp.policy.paths import Resolver, is_inside, is_windows_path
from pattern_acp.policy.programs import program_name


def rule_rulings(
    base: Decision,
    access: Access,
    rules: Sequence[PolicyRule],
    *,
    roots: Sequence[str],
    resolve: Resolver | None,
    around: Circumstances,
) -> Iterator[Decision]:
    """Yield what the rules that match the access say, where `base` is what the mode says.

    An allowance counts only where the mode asks out of habit, so that it is not looked for elsewhere.
    """
    rules = [rule for rule in rules if not rule.conditions or _is_met(rule, access, roots, around)]
    limiting = [rule for rule in rules if rule.effect != "allow"]
    if isinstance(access, RunCommand):
        yield from map(_ruling, _reaching_command(limiting, access, roots, resolve))
    else:
        yield from (_ruling(rule) for rule in limiting if _reaches(rule, access, roots))
    if base.verdict is Verdict.ASK and base.rule in HABITS:
        allowing = [rule for rule in rules if rule.effect == "allow"]
        covering = _covering(allowing, access, roots) if allowing else None
        if covering is not None:
            yield _ruling(covering)


def _is_met(rule: PolicyRule, access: Access, roots: Sequence[str], around: Circumstances) -> bool:
    if isinstance(access, RunCommand) and around.branch is not None and _may_change_branch(access, roots):
        around = replace(around, branch=None)
    holds = (_holds(condition, around) for condition in rule.conditions)
    return all(rule.effect != "allow" if one is None else one for one in holds)


def _holds(condition: RuleCondition, around: Circumstances) -> bool | None:
    """Return whether a condition holds; None where that is not known."""
    known = getattr(around, condition.fact)
    if known is None:
        return None
    match condition.fact:
        case "hour":
            first, last = map(int, condition.value.split("-"))
            is_within = first <= known < last if first < last else known >= first or known < last
            return is_within != (condition.relation == "not")
        case "branch":
            return fnmatchcase(known, condition.value) != (condition.relation == "not")
        case "requests" | "minutes":
            return known < int(condition.value) if condition.relation == "<" else known > int(condition.value)


_MOVING = frozenset({"bisect", "branch", "checkout", "rebase", "symbolic-ref", "switch", "worktree"})
"""Commands of git behind which another branch may be checked out."""
_ELSEWHERE = frozenset({"cd", "pushd", "popd", "chdir"})


def _may_change_branch(access: RunCommand, roots: Sequence[str]) -> bool:
    """Return whether a line may run git in another folder than the session's, or on another branch than now."""
    if not roots or access.cwd != roots[0]:
        return True
    windows = is_windows_path(access.cwd)
    for command in effective_commands(read_command_line(access.line, windows=windows), windows=windows):
        name = program_name(command.words[0]) if command.words else ""
        verb = command.words[1] if len(command.words) > 1 else ""
        if name in _ELSEWHERE or (name == "git" and (verb.startswith("-") or verb in _MOVING)):
            return True
    return False


def _ruling(rule: PolicyRule) -> Decision:
    return Decision(Verdict(rule.effect), f"rule_{rule.effect}", _sentence(rule), layer=rule.layer, source=str(rule))


def _sentence(rule: PolicyRule) -> str:
    where = f" of {rule.layer} rules" if not rule.place else f" of {rule.place}"
    because = f": {rule.reason}" if rule.reason else ""
    return f"The rule `{rule}`{where} says so{because.rstrip('.')}."


def _covering(rules: Sequence[PolicyRule], access: Access, roots: Sequence[str]) -> PolicyRule | None:
    if not isinstance(access, RunCommand):
        return next((rule for rule in rules if _reaches(rule, access, roots)), None)
    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    found: PolicyRule | None = None
    for command in doing_commands(line, access):
        mine = next((rule for rule in rules if rule.kind == "run" and _has_words(rule, command, whole=True)), None)
        if mine is None:
            return None
        found = found or mine
    # Last: few lines have the words of a rule, and this takes the most time.
    return found if found is not None and is_plain(line, windows=windows) else None


def _reaches(rule: PolicyRule, access: Access, roots: Sequence[str]) -> bool:
    """Return whether a rule is about an access that is no command."""
    match access:
        case WritePath(path=path):
            return rule.kind == "edit" and _matches_path(rule.pattern, path, roots)
        case ReadPath(path=path):
            return rule.kind == "read" and _matches_path(rule.pattern, path, roots)
        case FetchUrl(host=host):
            return rule.kind == "fetch" and fnmatchcase(host.casefold(), rule.pattern.casefold())
        case CallServer(server=server, tool=tool):
            return rule.kind == "mcp" and fnmatchcase(f"{server}/{tool}", rule.pattern)
        case _:
            return False


def _reaching_command(
    rules: Sequence[PolicyRule], access: RunCommand, roots: Sequence[str], resolve: Resolver | None
) -> Iterator[PolicyRule]:
    """Yield the rules that one command, changed file or read path of a line suffices for."""
    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    commands = [command for command in effective_commands(line, windows=windows) if command.words]
    names = {program_name(command.words[0]) for command in commands}
    # Each is worked out once for all rules, and only where a rule asks for it.
    kinds = {rule.kind for rule in rules}
    changed = changed_files(line, access.cwd) if "edit" in kinds else ()
    targets = command_targets(line, access.cwd, resolve) if "read" in kinds else ()
    read = [target.resolved for target in targets if target.resolved]
    for rule in rules:
        match rule.kind:
            case "run":
                is_meant = program_name(_rule_words(rule.pattern)[0]) in names
                reaches = is_meant and any(_has_words(rule, command, whole=False) for command in commands)
            case "edit":
                reaches = any(_matches_path(rule.pattern, path, roots) for path in changed)
            case "read":
                reaches = any(_matches_path(rule.pattern, path, roots) for path in read)
            case _:
                reaches = False
        if reaches:
            yield rule


@lru_cache(maxsize=1_024)
def _rule_words(pattern: str) -> tuple[str, ...]:
    return tuple(shlex.split(pattern))


def _has_words(rule: PolicyRule, command: SimpleCommand, *, whole: bool) -> bool:
    """Return whether a command has a rule's words; `whole`: it may have more only where the rule ends with `*`."""
    wanted, words = _rule_words(rule.pattern), command.words
    if not words or not _is_program(words[0], wanted[0], exactly=whole):
        return False
    rest, more = (wanted[1:-1], True) if wanted[-1] == "*" and len(wanted) > 1 else (wanted[1:], not whole)
    if len(words) - 1 < len(rest) or (len(words) - 1 > len(rest) and not more):
        return False
    return all(fnmatchcase(word, pattern) for word, pattern in zip(words[1:], rest, strict=False))


def _is_program(word: str, wanted: str, *, exactly: bool) -> bool:
    if exactly and ("/" in word or "/" in wanted):
        return word == wanted
    return program_name(word) == program_name(wanted)


@lru_cache(maxsize=1_024)
def _glob(pattern: str) -> Glob:
    return compile_glob(pattern.lstrip("/"), "/")


def _matches_path(pattern: str, path: str, roots: Sequence[str]) -> bool:
    glob = _glob(pattern)
    if pattern.startswith("/"):
        return glob.matches(path.lstrip("/"))
    return any(glob.matches(path[len(root.rstrip("/")) + 1 :]) for root in roots if is_inside(path, root))
