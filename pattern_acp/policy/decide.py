"""The one decision that every effect goes through.

Owns: the four modes, and how verdicts combine. Must not know: tools, the editor, how the user is asked. Pure: the
caller's `resolve` says where paths lead.
"""

import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import OverlapSetting, PolicyRule
from pattern_acp.domain.access import (
    Access,
    CallServer,
    FetchUrl,
    NoEffect,
    ReadMemory,
    ReadPath,
    RunCommand,
    WriteMemory,
    WritePath,
    WriteVerdict,
)
from pattern_acp.domain.errors import PatternError
from pattern_acp.policy.command_paths import command_targets, outside_paths, protected_words
from pattern_acp.policy.commands import Feature, read_command_line
from pattern_acp.policy.decision import (
    CLAIMED,
    NO_NETWORK,
    NO_SANDBOX,
    SANDBOX_REQUIRED,
    Circumstances,
    ClaimElsewhere,
    Decision,
    GrantScope,
    Lifetime,
    Mode,
    Verdict,
)
from pattern_acp.policy.destructive import destructive_reason
from pattern_acp.policy.external_effects import network_need, stays_inside
from pattern_acp.policy.grant_matching import (
    any_covers,
    doing_commands,
    exact_pattern,
    forbids,
    is_plain,
    memory_pattern,
    prefix_pattern,
    server_pattern,
)
from pattern_acp.policy.grants import Effect, Grant, GrantKind, describe_grant
from pattern_acp.policy.layers import CLAIM_RULES, Layer, combine
from pattern_acp.policy.nested_lines import whole_line
from pattern_acp.policy.own_program import own_program_reason
from pattern_acp.policy.paths import (
    Resolver,
    folder_of,
    is_inside,
    is_inside_any,
    is_windows_path,
    protection,
    shown_path,
)
from pattern_acp.policy.programs import prefix_words

_WHOLE_LENGTH, _CUT_LENGTH = 40, 16
"""Most characters of a command, folder or host that a button shows whole, and how many it shows of a longer one. Those
that are cut say so, with a digest, so that no two commands have the same label."""
REST_OF_TURN = GrantScope(GrantKind.EDITS, "", "edits", (Lifetime.TURN,))
"""Mode `edit` for the turn that asks: a way out for the one who would answer the same question again and again."""
_SESSION_ONLY = (Lifetime.SESSION,)
_IN_PROJECT = (Lifetime.SESSION, Lifetime.PROJECT)
_EVERYWHERE = (Lifetime.SESSION, Lifetime.PROJECT, Lifetime.PERSONA)
_UNSEEN = frozenset({Feature.EXPANSION, Feature.SUBSTITUTION, Feature.PROCESS_SUBSTITUTION, Feature.CHANGING_COMMAND})


def edit_scopes(access: WritePath, roots: Sequence[str]) -> tuple[GrantScope, ...]:
    """Edits below the file's folder; only this file when it is outside the roots or protected."""
    folder = folder_of(access.path)
    is_protected = protection(access.path, roots) is not None
    pattern = access.path if is_protected or not is_inside_any(folder, roots) else folder
    what = f"edits in {_shown_folder(pattern, access.path, roots)}"
    return (GrantScope(GrantKind.EDIT_FOLDER, pattern, what, _SESSION_ONLY if is_protected else _IN_PROJECT),)


def read_scopes(access: ReadPath, roots: Sequence[str]) -> tuple[GrantScope, ...]:
    """Reads below the file's folder; this path alone if the folder is near the disk's root or the path is protected."""
    folder = access.path if access.is_folder else folder_of(access.path)
    is_wide = len(folder.replace("\\", "/").strip("/").split("/")) < 3 or any(is_inside(root, folder) for root in roots)
    guard = protection(access.path, roots)
    is_protected = guard is not None and guard.for_reading
    pattern = access.path if is_wide or is_protected else folder
    what = f"reads in {_shown_folder(pattern, access.path, roots)}"
    return (GrantScope(GrantKind.READ_FOLDER, pattern, what, _SESSION_ONLY if is_protected else _EVERYWHERE),)


def command_scopes(access: RunCommand, roots: Sequence[str], resolve: Resolver | None) -> tuple[GrantScope, ...]:
    """The prefix of a line's only command if it would cover the line, else exactly this line.

    Empty for a destructive line whose text depends on expansions: nobody can say "always" to something unseen.
    """
    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    if not is_inside_any(access.cwd, roots):
        return ()
    destroys = destructive_reason(line, windows=windows) is not None
    if destroys and not line.features.isdisjoint(_UNSEEN):
        return ()
    is_seen = line.features.isdisjoint(_UNSEEN) and not whole_line(line, windows=windows).hidden
    lifetimes = _IN_PROJECT if is_seen and not destroys else _SESSION_ONLY
    # The same words do something else in another folder.
    where = "" if access.cwd == roots[0] else f" in {_shown_folder(access.cwd, '', roots)}"
    what = f"exactly {_code(access.line.strip())}{where}"
    exact = GrantScope(GrantKind.EXACT_COMMAND, exact_pattern(access), what, lifetimes)
    doing = doing_commands(line, access)
    prefix = prefix_words(doing[0]) if len(doing) == 1 else None
    if prefix is None or not is_plain(line, windows=windows):
        return (exact,)
    pattern = prefix_pattern(prefix, access.cwd, resolve)
    if not any_covers((Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, pattern),), access, roots=roots, resolve=resolve):
        return (exact,)
    what = _code(f"{shlex.join(prefix)} …") + (where if "/" in prefix[0] else "")
    return (GrantScope(GrantKind.COMMAND_PREFIX, pattern, what, _EVERYWHERE), exact)


def memory_scopes(access: WriteMemory) -> tuple[GrantScope, ...]:
    """Writes to this one block."""
    return (GrantScope(GrantKind.MEMORY_BLOCK, memory_pattern(access), f"writes to {_code(access.label)}"),)


def server_scopes(access: CallServer) -> tuple[GrantScope, ...]:
    """This one tool of the server, as it is now."""
    what = _code(f"{access.server}/{access.tool}")
    return (GrantScope(GrantKind.SERVER_TOOL, server_pattern(access), what, _EVERYWHERE),)


def fetch_scopes(access: FetchUrl) -> tuple[GrantScope, ...]:
    """Every page of this host."""
    return (GrantScope(GrantKind.FETCH_HOST, access.host, f"pages of {_end_of(access.host)}", _EVERYWHERE),)


def _code(text: str) -> str:
    """Text between backticks: whole, or its beginning and how it was cut or changed to fit."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split()).replace("`", "'")
    if len(line) > _WHOLE_LENGTH:
        cut = line[:_CUT_LENGTH].rstrip(" …")
        return f"`{cut}…` (+{len(line) - len(cut)} chars, {_digest(text)})"
    return f"`{line}`" if line == text else f"`{line}` (as shown, {_digest(text)})"


def _end_of(text: str) -> str:
    """A path or host: whole, or its end, which says more than its start, and how it was cut or changed to fit."""
    line = "".join(char if char.isprintable() else "?" for char in text)
    if len(line) > _WHOLE_LENGTH:
        return f"…{line[-_CUT_LENGTH:]} (+{len(line) - _CUT_LENGTH} chars, {_digest(text)})"
    return line if line == text else f"{line} (as shown, {_digest(text)})"


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _shown_folder(pattern: str, path: str, roots: Sequence[str]) -> str:
    shown = shown_path(pattern, roots)
    if pattern != path:
        shown = f"{shown.rstrip('/')}/"
    return _end_of(shown)


__all__ = ["Decision", "GrantScope", "Mode", "Verdict", "decide"]


class _Situation(Struct, frozen=True):
    """The facts that decide on every access of one call."""

    mode: Mode
    roots: tuple[str, ...]
    grants: tuple[Grant, ...]
    resolve: Resolver | None
    sandbox: str = ""
    reading_asks: bool = False
    rules: tuple[PolicyRule, ...] = ()
    around: Circumstances = Circumstances()


MOST_REASONS = 4
"""Most reasons that are named for one call; a patch may touch hundreds of files."""


def decide(  # noqa: PLR0913  all that a decision is made from
    accesses: Sequence[Access],
    *,
    mode: Mode,
    roots: Sequence[str],
    grants: Sequence[Grant] = (),
    resolve: Resolver | None = None,
    sandbox: str = "",
    reading_asks: bool = False,
    rules: Sequence[PolicyRule] = (),
    around: Circumstances | None = None,
    overlap: OverlapSetting = "tell",
) -> Decision:
    """Decide on a call by everything that it wants to touch: the strictest answer wins.

    Modes (issue 2 section 9): in `ask` reads inside the roots run, edits and commands ask; in `edit` edits inside the
    roots run too; in `plan` every change is denied; in `auto` everything inside the roots runs, but commands that are
    destructive or reach beyond the roots (network, other processes, containers, the machine) ask. Anything outside the
    roots or protected asks in every mode, and so does our own program where it decides.

    A command line that surely only reads inside the roots runs in every mode (`reading`), unless `reading_asks`.

    A refusal beats every allowance (invariant 7), and no allowance changes what `plan` denies. How the mode, grants and
    rules come together is `layers.combine`.

    Memory is the agent's own: it may always be read, and a write shows its diff and can be undone, so it runs without a
    question, unless the block's permission requires the user's consent (issue 3 section 1). In `plan` it is denied all
    the same, since that mode promises that nothing is different afterwards.

    The effects of an MCP server are unknown: its tools ask in `ask` and `edit`, and in `plan` if the server calls them
    read-only; others are denied there. `auto` asks about anything the user has not agreed to yet: a server's first use,
    and tools that were added or changed since (issue 4 section 1). A page of the web asks in every mode.

    Args:
        accesses: everything that the call wants to touch; an empty sequence counts as no effect.
        mode: the session's mode.
        roots: absolute, resolved folders of the session.
        grants: the answers that the user had remembered for this session.
        resolve: see `paths.Resolver`; None reads paths by their text.
        sandbox: the sandbox of this machine, in a few words; empty when there is none. A command that runs
            without a question runs in it.
        reading_asks: True when commands that only read are decided on like all others.
        rules: the user's and the project's rules; deny comes before ask, ask before allow, whatever their order.
        around: the circumstances that the conditions of rules are about, and the claims of others.
        overlap: what becomes of a call that changes what another open session claims.
    """
    # Each path is looked up once a decision, however many layers ask for it.
    lookup = cache(resolve) if resolve is not None else None
    situation = _Situation(
        mode, tuple(roots), tuple(grants), lookup, sandbox, reading_asks, tuple(rules), around or Circumstances()
    )
    decisions = [_decide_layers(_as_it_leads(access, lookup), situation) for access in accesses or (NoEffect(),)]
    strictest = max(decisions, key=lambda decision: decision.verdict.strictness)
    same = [decision for decision in decisions if decision.verdict is strictest.verdict]
    scopes = tuple(scope for scope in strictest.scopes if all(scope in decision.scopes for decision in same))
    # One part that has to be confined confines the call.
    confined = next((decision.sandbox for decision in same if decision.sandbox), "")
    decision = replace(strictest, reason=_reasons(same), scopes=scopes, sandbox=confined)
    return _beside_claims(decision, situation.around.claims, overlap) if situation.around.claims else decision


def _beside_claims(decision: Decision, claims: Sequence[ClaimElsewhere], overlap: OverlapSetting) -> Decision:
    """The decision where other open sessions claim what the call would change, as the user's settings have it."""
    untold = [one for one in claims if overlap == "deny" or not one.told]
    if not untold or decision.verdict is Verdict.DENY:
        return decision
    who = "\n".join(one.line or f"- {one.path}: {one.session}" for one in untold)
    asks = overlap == "ask"
    if asks:
        reason = f"Another open session works on what the agent wants to change:\n{who}"
        if decision.verdict is Verdict.ASK:
            reason += f"\n{decision.reason}"
    else:
        reason = f"Not done yet, nothing was changed. Another open session works on what this call would change:\n{who}"
        if overlap == "deny":
            reason += "\nThe settings deny edits there ([claims] overlap)."
    claimed = Decision(
        Verdict.ASK if asks else Verdict.DENY,
        CLAIMED,
        reason,
        sandbox=decision.sandbox if asks else "",
        layer=Layer.USER,
        source=CLAIM_RULES[overlap],
    )
    together = combine((decision, claimed))
    return replace(together, rule=CLAIMED, reason=reason, source=claimed.source, layer=claimed.layer)


def _as_it_leads(access: Access, resolve: Resolver | None) -> Access:
    """The access under the path that its own leads to, which differs for another name of a protected file."""
    if resolve is None or not isinstance(access, ReadPath | WritePath):
        return access
    try:
        path = resolve(access.path, folder_of(access.path))
    except PatternError:
        return access
    return access if path == access.path else replace(access, path=path)


def _reasons(decisions: Sequence[Decision]) -> str:
    """The reasons for everything that a call touches: a patch may hold a harmless file and one that is not."""
    reasons = list(dict.fromkeys(decision.reason for decision in decisions))
    # Ordinary edits look alike and are the least informative.
    reasons.sort(key=lambda reason: any(one.rule == "ask_mode" and one.reason == reason for one in decisions))
    more = len(reasons) - MOST_REASONS
    return " ".join([*reasons[:MOST_REASONS], *([f"And {more} more like these."] if more > 0 else [])])


def _decide_layers(access: Access, situation: _Situation) -> Decision:
    """Combine what the layers say: the built-in policy in this mode, grants, and rules."""
    base = _decide_one(access, situation)
    rulings = [base, *_refusals(access, situation)]
    if base.verdict is not Verdict.DENY:
        if base.rule != "reading":
            rulings += _allowances(access, situation)
        if situation.rules:
            # Late: few users write rules.
            from pattern_acp.policy.rules import rule_rulings

            roots, resolve = situation.roots, situation.resolve
            rulings += rule_rulings(
                base, access, situation.rules, roots=roots, resolve=resolve, around=situation.around
            )
    return base if len(rulings) == 1 else combine(rulings)


_WHERE = {
    Lifetime.TURN: "for the rest of this turn",
    Lifetime.SESSION: "for this session",
    Lifetime.PROJECT: "in this project",
    Lifetime.PERSONA: "for this persona everywhere",
}
_LAYERS = {
    Lifetime.TURN: Layer.SESSION,
    Lifetime.SESSION: Layer.SESSION,
    Lifetime.PROJECT: Layer.PROJECT,
    Lifetime.PERSONA: Layer.PERSONA,
}


def _refusals(access: Access, situation: _Situation) -> Iterator[Decision]:
    for grant in situation.grants:
        if grant.effect is Effect.DENY and forbids(grant, access, resolve=situation.resolve):
            reason = f"You refused this {_WHERE[grant.lifetime]}: {describe_grant(grant)}."
            layer, source = _LAYERS[grant.lifetime], f"never {describe_grant(grant)}"
            yield Decision(Verdict.DENY, "refused_before", reason, layer=layer, source=source)


def _allowances(access: Access, situation: _Situation) -> Iterator[Decision]:
    roots, resolve = situation.roots, situation.resolve
    if not any_covers(situation.grants, access, roots=roots, resolve=resolve):
        return
    alone = [one for one in situation.grants if any_covers((one,), access, roots=roots, resolve=resolve)]
    for grant in alone:
        reason = f"You allowed {describe_grant(grant)} {_WHERE[grant.lifetime]}."
        layer, source = _LAYERS[grant.lifetime], f"always {describe_grant(grant)}"
        yield Decision(Verdict.ALLOW, "allowed_before", reason, layer=layer, source=source)
    if not alone:
        reason = "You allowed each of its commands."
        yield Decision(Verdict.ALLOW, "allowed_before", reason, layer=Layer.SESSION, source="several grants")


def _decide_one(access: Access, situation: _Situation) -> Decision:
    """The decision of the mode and the floor, before grants and rules."""
    match access:
        case NoEffect() | ReadMemory():
            return _decide_harmless(access)
        case WriteMemory():
            return _decide_memory(access, situation)
        case ReadPath():
            return _decide_read(access, situation)
        case WritePath():
            return _decide_write(access, situation)
        case RunCommand():
            return _decide_command(access, situation)
        case CallServer():
            return _decide_server(access, situation)
        case FetchUrl():
            return _decide_fetch(access)
        case _:
            assert_never(access)


def _decide_harmless(access: NoEffect | ReadMemory) -> Decision:
    if isinstance(access, ReadMemory):
        return Decision(Verdict.ALLOW, "memory_read", "Reading its own memory needs no permission.")
    return Decision(Verdict.ALLOW, "no_effect", "It changes nothing outside the conversation.")


def _decide_memory(access: WriteMemory, situation: _Situation) -> Decision:
    if situation.mode is Mode.PLAN:
        return Decision(Verdict.DENY, "plan_mode", "Plan mode changes nothing, memory included.")
    if access.standing is WriteVerdict.DENIED:
        return Decision(Verdict.DENY, "memory_denied", access.reason)
    if access.standing is WriteVerdict.CONSENT:
        if access.only_once:
            return Decision(Verdict.ASK, "memory_secret", access.reason)
        return Decision(Verdict.ASK, "memory_consent", access.reason, memory_scopes(access))
    return Decision(Verdict.ALLOW, "memory_write", "Its own memory is shown as a diff and can be undone.")


def _decide_read(access: ReadPath, situation: _Situation) -> Decision:
    roots = situation.roots
    guard = protection(access.path, roots)
    shown = shown_path(access.path, roots)
    if guard is not None and guard.for_reading:
        return Decision(Verdict.ASK, "protected_read", f"{shown} {guard.reason}.", read_scopes(access, roots))
    if not is_inside_any(access.path, roots):
        reason = f"{shown} is outside the folders of this session."
        return Decision(Verdict.ASK, "outside_read", reason, read_scopes(access, roots))
    return Decision(Verdict.ALLOW, "inside_read", "Reading inside the folders of this session needs no permission.")


def _decide_write(access: WritePath, situation: _Situation) -> Decision:
    roots, mode = situation.roots, situation.mode
    if mode is Mode.PLAN:
        return Decision(Verdict.DENY, "plan_mode", "Plan mode changes no files.")
    guard = protection(access.path, roots)
    shown = shown_path(access.path, roots)
    scopes = edit_scopes(access, roots)
    if guard is not None:
        return Decision(Verdict.ASK, "protected_write", f"{shown} {guard.reason}.", scopes)
    if not is_inside_any(access.path, roots):
        return Decision(Verdict.ASK, "outside_write", f"{shown} is outside the folders of this session.", scopes)
    if mode is Mode.ASK:
        reason = f"It changes {shown}, and mode `ask` asks before each edit."
        return Decision(Verdict.ASK, "ask_mode", reason, (*scopes, REST_OF_TURN))
    return Decision(Verdict.ALLOW, "inside_write", f"Mode `{mode}` edits inside the folders of this session.")


def _decide_command(access: RunCommand, situation: _Situation) -> Decision:
    roots, mode, resolve = situation.roots, situation.mode, situation.resolve
    windows = is_windows_path(access.cwd)
    reads = _only_reads(access, situation, windows=windows)
    if reads and situation.sandbox != SANDBOX_REQUIRED and _objection(access, situation, reads=True) is None:
        reason = "It only reads inside the folders of this session."
        return Decision(Verdict.ALLOW, "reading", reason, sandbox=situation.sandbox)
    if mode is Mode.PLAN:
        return Decision(Verdict.DENY, "plan_mode", "Plan mode runs only commands that surely change nothing.")
    line = read_command_line(access.line, windows=windows)
    own = own_program_reason(line, access.cwd, resolve, windows=windows)
    if own is not None:
        # No scope: no "always" answer covers acts in the user's place.
        return Decision(Verdict.ASK, "own_program", own)
    if situation.sandbox == SANDBOX_REQUIRED:
        reason = 'Nothing on this machine can confine it, and `[policy] sandbox = "require"` wants that.'
        return Decision(Verdict.DENY, "sandbox_required", reason)
    objection = _objection(access, situation, reads=reads) or _beyond_sandbox(access, situation)
    if objection is None and mode is Mode.AUTO:
        reason = "Mode `auto` runs commands inside the folders of this session."
        return Decision(Verdict.ALLOW, "auto_mode", reason, sandbox=situation.sandbox)
    rule, reason = objection or ("command", f"It runs a command, and mode `{mode}` asks before each one.")
    return Decision(Verdict.ASK, rule, reason, command_scopes(access, roots, resolve))


def _beyond_sandbox(access: RunCommand, situation: _Situation) -> tuple[str, str] | None:
    """Return the rule and reason why a line of mode `auto` asks: it needs a sandbox, or what the sandbox cuts."""
    if situation.mode is not Mode.AUTO or not situation.sandbox:
        return None
    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    if situation.sandbox == NO_SANDBOX:
        # Late, as in `_only_reads`.
        from pattern_acp.policy.reading import changes_nothing

        is_simple = is_plain(line, windows=windows) and all(map(stays_inside, doing_commands(line, access)))
        if is_simple or (not access.git_setting and changes_nothing(access.line, windows=windows)):
            return None
        return "no_sandbox", "Nothing here can confine it, and nothing shows that it stays inside the folders."
    if situation.sandbox.endswith(NO_NETWORK) and (needs := network_need(line)):
        return "network", f"`{needs}` needs the network, which the sandbox does not give."
    return None


def outside_offer(accesses: Sequence[Access], stopped: str, roots: Sequence[str], resolve: Resolver | None) -> Decision:
    """Return the question whether a command that the sandbox stopped is to run outside; `stopped` says by what."""
    commands = [access for access in accesses if isinstance(access, RunCommand)]
    scopes = command_scopes(commands[0], roots, resolve) if len(commands) == 1 else ()
    return Decision(Verdict.ASK, "sandbox_stopped", f"{stopped} Run it outside the sandbox?", scopes)


def _only_reads(access: RunCommand, situation: _Situation, *, windows: bool) -> bool:
    # Its table takes 10 ms to read; a start that decides on no command does not pay for it.
    from pattern_acp.policy.reading import hides_credentials, surely_reads

    if situation.reading_asks or access.git_setting:
        return False
    return surely_reads(access.line, windows=windows, confined=hides_credentials(situation.sandbox))


def _decide_server(access: CallServer, situation: _Situation) -> Decision:
    mode = situation.mode
    if mode is Mode.PLAN and not access.read_only:
        return Decision(Verdict.DENY, "plan_mode", "Plan mode uses only tools that their MCP server calls read-only.")
    scopes = server_scopes(access)
    if access.news:
        return Decision(Verdict.ASK, "server_news", access.news, scopes)
    if mode is Mode.AUTO:
        return Decision(Verdict.ALLOW, "auto_mode", "Mode `auto` uses tools of MCP servers that you agreed to.")
    reason = f"It uses the MCP server {_quoted(access.server)}, and mode `{mode}` asks before each use."
    return Decision(Verdict.ASK, "server_tool", reason, scopes)


def _decide_fetch(access: FetchUrl) -> Decision:
    # In every mode: a URL can leak text that the model has read, so `auto` asks as well.
    reason = f"It fetches a page of {_quoted(access.host)} and tells that server the URL."
    return Decision(Verdict.ASK, "fetch", reason, fetch_scopes(access))


def _objection(access: RunCommand, situation: _Situation, *, reads: bool) -> tuple[str, str] | None:
    """Return the rule and sentence by which a line asks even in `auto`, if any; `reads`: it surely only reads."""
    # Its patterns take 10 ms to compile; a start that decides on no command does not pay for them.
    from pattern_acp.policy.environment import environment_reason
    from pattern_acp.policy.external_effects import reaching_reason

    windows = is_windows_path(access.cwd)
    line = read_command_line(access.line, windows=windows)
    if not is_inside_any(access.cwd, situation.roots):
        return "outside_folder", f"It runs in {_quoted(access.cwd)}, outside the folders of this session."
    whole = whole_line(line, windows=windows)
    hidden, blind = " and ".join(sorted(whole.hidden)), whole.blind
    of_commands = (
        ("destructive", destructive_reason(line, windows=windows)),
        (
            "unreadable_command",
            f"It is unclear what this runs: it holds {hidden}." if hidden else None,
        ),
        ("variable", environment_reason(line, windows=windows)),
        ("reaching", reaching_reason(line, windows=windows)),
        (
            "unknown_input",
            f"`{blind}` takes names of files from its input, known only when it runs." if blind else None,
        ),
    )
    for rule, reason in of_commands:
        if reason is not None:
            return rule, reason
    targets = command_targets(line, access.cwd, situation.resolve)
    outside = outside_paths(targets, situation.roots)
    if outside:
        return "outside_path", f"It names {_quoted(outside[0])}, which may be outside the folders of this session."
    for word, guard in protected_words(targets, situation.roots):
        if reads and not guard.for_reading:
            continue
        return "protected_path", f"It names {_quoted(word)}, which {guard.reason}."
    return None


def _quoted(text: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return f"`{shown if len(shown) <= 80 else shown[:79] + '…'}`"
