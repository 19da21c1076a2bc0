"""Settings: the key of each, what it may hold, where it may be set; and the variables of ours that are read.

Owns: the table of keys, the names of our variables, and what is said of others. Must not know: files, precedence, or
what a setting does. Providers are described in config/providers.py, since their keys repeat for each name.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from operator import attrgetter
from typing import cast

from msgspec import Struct

from pattern_acp.config.paths import HOME_VARIABLE
from pattern_acp.config.providers import SCRIPT_VARIABLE
from pattern_acp.config.settings import (
    ISOLATION_BY_REACH,
    LSP_BY_REACH,
    MODES_BY_REACH,
    READING_BY_REACH,
    REVIEW_BY_REACH,
    SANDBOX_BY_REACH,
    SANDBOX_NETWORK_BY_REACH,
    SECRETS_BY_REACH,
    Settings,
)
from pattern_acp.config.toml_file import (
    AMOUNT,
    EMBEDDER,
    FILE_NAME,
    FOLDERS,
    MODEL,
    MODELS,
    NAMED_FOLDERS,
    SYNC_URL,
    WEB_ADDRESS,
    YES_OR_NO,
    Problem,
    Rule,
    Value,
    choice,
    number,
)


class ProjectRule(Enum):
    """Permissions of a project's file for a key; a cloned repository must never widen what the agent may do."""

    NEVER = "never"
    LOWER = "lower"
    """Only a number below the user's own."""
    NARROWER = "narrower"
    """Only a choice that may do less than the user's own, or as much (`Key.reach`)."""
    CONFIGURED = "configured"
    """Only a model of a provider that the user has set up."""


class Key(Struct, frozen=True):
    """One setting outside tables whose names people give."""

    name: str
    """Dotted, as in the file."""
    summary: str
    rule: Rule
    project: ProjectRule = ProjectRule.NEVER
    variable: str = ""
    flag: str = ""
    when_empty: str = "automatic"
    """The meaning of an empty value, for doctor."""
    reach: tuple[Value, ...] = ()
    """The choices from the one that may do least to the one that may do most, for `ProjectRule.NARROWER`."""

    @property
    def default(self) -> Value:
        """The value without any file."""
        return cast("Value", attrgetter(self.name)(_DEFAULTS))


def _limit(name: str, summary: str, low: int, high: int) -> Key:
    return Key(name, summary, number(low, high), ProjectRule.LOWER)


def _narrower(name: str, summary: str, rule: Rule, reach: tuple[Value, ...]) -> Key:
    return Key(name, summary, rule, ProjectRule.NARROWER, reach=reach)


def _delegate_model(field: str, who: str, otherwise: str) -> Key:
    summary = f"The model of {who}; empty for {otherwise}."
    return Key(f"delegate.{field}", summary, MODEL, ProjectRule.CONFIGURED, when_empty=otherwise)


_DEFAULTS = Settings()

KEYS: tuple[Key, ...] = (
    Key(
        "model",
        "The model that answers; empty to choose the first one that is set up.",
        MODEL,
        ProjectRule.CONFIGURED,
        variable="PATTERN_ACP_MODEL",
        flag="--model",
    ),
    Key(
        "constellation.name",
        "The memory to use.",
        FILE_NAME,
        variable="PATTERN_ACP_CONSTELLATION",
        flag="--constellation",
    ),
    Key(
        "constellation.per_project",
        "Whether each project has a file of its own, with your own memory in the one that `name` says.",
        YES_OR_NO,
    ),
    Key("persona", "Who answers.", FILE_NAME, flag="--persona"),
    Key(
        "mode",
        "What runs without a question in a new session: ask (reads), edit (reads and edits), plan (reads, and nothing "
        "else at all), auto (everything inside the directory).",
        choice("ask", "edit", "plan", "auto"),
        ProjectRule.NARROWER,
        variable="PATTERN_ACP_MODE",
        flag="--mode",
        reach=MODES_BY_REACH,
    ),
    Key(
        "thinking",
        "How much the model thinks in a new session; auto: as its vendor lets it, or medium if it would not.",
        choice("auto", "off", "low", "medium", "high", "max"),
        variable="PATTERN_ACP_THINKING",
        flag="--thinking",
    ),
    Key(
        "log_level",
        "The least serious message that the log keeps.",
        choice("debug", "info", "warning", "error"),
        variable="PATTERN_ACP_LOG",
        flag="--log-level",
    ),
    Key(
        "edit_tool",
        "The tool that the model edits files with; auto for the one that it was trained on.",
        choice("auto", "edit_file", "apply_patch", "both"),
    ),
    Key("fallback", "Fallback models, in this order, when the chosen one is overloaded or cannot be reached.", MODELS),
    Key(
        "fallback_after_seconds",
        "Longest rate limit that is waited for while a model of `fallback` is left.",
        number(0, 3600),
    ),
    Key(
        "cache_ttl",
        "How long Anthropic keeps the prefix of a session in its cache; an hour costs more to write.",
        choice("5m", "1h"),
    ),
    _limit(
        "editor_deadline_seconds", "Longest wait for one answer of the editor to a file or terminal request.", 1, 600
    ),
    Key("memory.embedder", "What finds memory by meaning.", EMBEDDER),
    _limit(
        "memory.recall_tokens", "Most tokens of what is recalled for a prompt before each turn; 0 for none.", 0, 4000
    ),
    Key("memory.files", "Whether memory is also stored as files in the project, .pattern/memory/LABEL.md.", YES_OR_NO),
    _narrower(
        "memory.isolation",
        "How far a project is separated from the persona's memory.",
        choice("none", "core-only", "full"),
        ISOLATION_BY_REACH,
    ),
    _narrower(
        "memory.secrets",
        "What happens when a text to remember seems to hold a secret.",
        choice(*SECRETS_BY_REACH),
        SECRETS_BY_REACH,
    ),
    _narrower(
        "memory.review",
        "Whether you are asked before the agent notes a decision, constraint or trap for the project.",
        choice(*REVIEW_BY_REACH),
        REVIEW_BY_REACH,
    ),
    Key(
        "compaction.strategy",
        "How a conversation that fills the model's window is made shorter.",
        choice("summarise", "truncate", "importance", "time_decay"),
    ),
    Key(
        "compaction.threshold_percent",
        "Where that begins, in percent of the window without the space for the answer.",
        number(30, 95),
    ),
    Key("compaction.target_percent", "What it leaves, in percent of the same.", number(10, 90)),
    Key(
        "backup.hourly",
        "Snapshots of the constellation that stay, the newest of each of so many hours; 0 for none.",
        number(0, 1000),
    ),
    Key(
        "backup.daily",
        "Snapshots of the constellation that stay, the newest of each of so many days; 0 for none.",
        number(0, 1000),
    ),
    Key(
        "backup.monthly",
        "Snapshots of the constellation that stay, the newest of each of so many months; 0 for none.",
        number(0, 1000),
    ),
    Key(
        "backup.segments",
        "Whether all that is recorded is written to files beside the constellation too, to rebuild it from.",
        YES_OR_NO,
    ),
    Key("retention.deleted_days", "For how many days a deleted session can be brought back.", number(1, 36_500)),
    Key(
        "retention.files_days",
        "For how many days gc leaves contents of files that checkpoints keep; 0 for as long as their sessions.",
        number(0, 36_500),
    ),
    Key(
        "retention.files_mb",
        "How many MB of them gc leaves, the newest ones; 0 for all of them.",
        number(0, 100_000_000),
    ),
    Key(
        "retention.copies_days",
        "For how many days gc leaves copies of restores, rebuilds and migrations, and replaced segments.",
        number(1, 36_500),
    ),
    Key(
        "retention.snapshots_mb",
        "How many MB of snapshots gc leaves, the newest ones, at least one; 0 for all of them.",
        number(0, 100_000_000),
    ),
    Key(
        "retention.tell_mb",
        "A start says so when gc could free at least so many MB; 0 to say nothing.",
        number(0, 100_000_000),
    ),
    Key(
        "sync.url",
        "Where memory is exchanged with your other devices: folder:PATH of any file-sync tool, or nats://HOST:PORT.",
        SYNC_URL,
        when_empty="nowhere",
    ),
    Key(
        "sync.exclude",
        "Folders of projects of which no memory goes to other devices, and none comes.",
        FOLDERS,
        when_empty="none",
    ),
    Key(
        "sync.projects",
        "Projects that are in other folders on other devices, by a name that is the same on all.",
        NAMED_FOLDERS,
        when_empty="none",
    ),
    Key("sync.every_seconds", "Longest time between two exchanges while a session is open.", number(1, 86_400)),
    Key(
        "sync.sessions_days",
        "Days since their last use for which sessions go to other devices too; 0: no sessions go.",
        number(0, 36_500),
    ),
    Key(
        "fetch.private_addresses",
        "Whether fetch_url may reach this machine and its networks, such as a development server.",
        YES_OR_NO,
    ),
    Key(
        "search.provider",
        "Provider of web_search; its key: `auth login NAME`, or BRAVE_API_KEY, TAVILY_API_KEY or EXA_API_KEY.",
        choice("off", "brave", "tavily", "exa", "searxng"),
    ),
    Key(
        "search.url",
        "Address of the server of SearXNG, or of a proxy in front of another provider.",
        WEB_ADDRESS,
        when_empty="the provider's own",
    ),
    _narrower(
        "policy.sandbox",
        "Whether commands that run unasked are confined: where it works, always (or they do not run), or not.",
        choice("auto", "require", "off"),
        SANDBOX_BY_REACH,
    ),
    _narrower(
        "policy.sandbox_network",
        "The network of confined commands: none but a loopback of their own, or that of the machine.",
        choice("none", "host"),
        SANDBOX_NETWORK_BY_REACH,
    ),
    Key(
        "policy.sandbox_writable",
        "Folders that confined commands may write besides the session's, such as caches of package managers.",
        FOLDERS,
    ),
    Key(
        "policy.remember_mode",
        "Whether a new session begins in the mode of the last one in its folder or project, not in `mode`.",
        YES_OR_NO,
    ),
    _narrower(
        "policy.reading_commands",
        "Whether commands that surely only read inside the session's folders run unasked, in every mode.",
        choice("run", "ask"),
        READING_BY_REACH,
    ),
    Key(
        "definitions.follow",
        "Whether a session asks about changed definitions (ask), takes them over (adopt) or not (keep).",
        choice("ask", "adopt", "keep"),
    ),
    Key(
        "chat.theme",
        "Colours of the chat: for a dark or a light ground, by the terminal (auto), or none (plain).",
        choice("auto", "dark", "light", "plain"),
    ),
    Key(
        "claims.overlap",
        "What happens before an edit of a file that another open session changes.",
        choice("tell", "ask", "deny"),
    ),
    Key("tasks.files", "Whether the project's tasks are also stored as files in it, .pattern/tasks/N.md.", YES_OR_NO),
    _delegate_model("model", "subagents", "that of the session"),
    _delegate_model("explorer_model", "explorers", "that of all subagents"),
    _delegate_model("worker_model", "workers", "that of all subagents"),
    _delegate_model("reviewer_model", "reviewers", "that of all subagents"),
    _limit("delegate.max_model_requests", "Model requests of one subagent.", 1, 10_000),
    _limit("delegate.max_wall_seconds", "Duration of one subagent.", 1, 86_400),
    _limit("delegate.max_tool_calls", "Tool calls of one subagent.", 1, 100_000),
    _limit("delegate.max_tokens", "Tokens that all requests of one subagent read and write.", 1, 1_000_000_000),
    Key(
        "delegate.worker_changes",
        "A worker's changes are made at once (direct), or at its end, all of them or none (whole).",
        choice("direct", "whole"),
    ),
    Key(
        "delegate.worker_review",
        "Whether you are asked before a worker's changes land as a whole; by_mode: not in the mode auto.",
        choice("by_mode", "always", "never"),
    ),
    _narrower(
        "lsp.mode",
        'Whether language servers say what an edit broke; `lsp = "off"` is short for it.',
        choice("on", "off"),
        LSP_BY_REACH,
    ),
    _limit("lsp.wait_seconds", "Longest that an edit waits for what language servers find wrong in it.", 0, 60),
    _limit("lsp.idle_minutes", "After how long without an edit or question a language server is ended.", 1, 1440),
    Key(
        "budget.turn",
        "What the models of one prompt may cost, subagents included.",
        AMOUNT,
        flag="--max-cost",
        when_empty="no limit",
    ),
    Key("budget.session", "What the models of one session may cost.", AMOUNT, when_empty="no limit"),
    Key("budget.day", "What the models of all sessions may cost in a day.", AMOUNT, when_empty="no limit"),
    Key(
        "jobs.ask_above",
        "The estimate of a plan, or of workers, above which you are asked whether it becomes a job.",
        AMOUNT,
        when_empty="never",
    ),
    _limit("turn.max_model_requests", "Model requests in one turn.", 1, 10_000),
    _limit("turn.max_wall_seconds", "Duration of one turn.", 1, 86_400),
    _limit(
        "turn.tool_result_chars",
        "Length of one tool result for the model; a file that it reads may have 2.5 times as much.",
        1000,
        1_000_000,
    ),
    _limit("turn.command_timeout_seconds", "Duration of a command that names no other.", 1, 86_400),
    _limit(
        "turn.max_output_tokens",
        "Most tokens of one answer, beside its reasoning; fewer where the model's own limit is lower.",
        1,
        1_000_000,
    ),
    _limit("turn.provider_connect_seconds", "Longest wait for a provider's connection.", 1, 600),
    _limit("turn.provider_first_byte_seconds", "Longest wait for the first byte of a model's answer.", 1, 7200),
    _limit("turn.provider_total_seconds", "Longest that one answer of a model may take.", 1, 86_400),
    _limit("turn.provider_idle_seconds", "Longest wait between two bytes of a model's stream.", 1, 3600),
    _limit(
        "turn.stream_retries",
        "How often in a row the model is asked to continue an answer whose connection broke; 0 for never.",
        0,
        20,
    ),
    _limit(
        "turn.repeats_noted",
        "The model reads a note from this call on when it repeats one, with the same result and no change in between.",
        2,
        1000,
    ),
    _limit(
        "turn.repeats_asked",
        "You are asked before this call when the model repeats one, with the same result and no change in between.",
        2,
        1000,
    ),
    Key(
        "turn.slow_commands",
        "What becomes of a command at its time limit: it is ended, or continues in the background.",
        choice("end", "background"),
    ),
    Key(
        "turn.overlapping",
        "What becomes of a prompt while a turn runs: it steers the turn, waits for its end, or replaces it. "
        "auto: steer in version 2 of ACP, replace in version 1.",
        choice("auto", "steer", "queue", "replace"),
    ),
    _limit(
        "turn.wakes",
        "How many turns in a row the agent begins unasked, when background work ends while nothing runs, until "
        "you prompt again; 0 for none. Version 2 of ACP only.",
        0,
        100,
    ),
)


_PREFIX = "PATTERN_ACP_"

INSIDE_VARIABLE = "PATTERN_ACP_INSIDE"
"""The mark in the environment of everything that an agent of ours starts: what is run there is not run by the user."""

TOKEN_VARIABLE = "PATTERN_ACP_TOKEN"  # noqa: S105  the name of one
"""Holds the token of the server that `pattern-acp connect` connects to, where no keyring does."""

NAMES = (
    HOME_VARIABLE,
    SCRIPT_VARIABLE,
    INSIDE_VARIABLE,
    TOKEN_VARIABLE,
    *(key.variable for key in KEYS if key.variable),
)
"""All that are read."""


def unknown_variables(environ: Mapping[str, str]) -> Iterator[Problem]:
    """A problem for each variable that is set, begins as ours do, and is none of them."""
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in NAMES and environ[name]:
            yield Problem(f"${name}", None, "", f"{_sentence(name)} It is not used.")


def _sentence(name: str) -> str:
    # Late: only a slip of the keys needs it, and the import costs a start 2 ms.
    from difflib import get_close_matches

    wanted = name.removeprefix(_PREFIX).lower()
    for key in KEYS:
        if wanted == key.name.replace(".", "_"):
            # The nearest variable would be that of another setting.
            by_flag = f"{key.flag} or " if key.flag else ""
            return f"the setting {key.name} is not read from the environment; use {by_flag}config.toml."
    [nearest, *_] = get_close_matches(name, NAMES, 1, 0)
    return f"there is no such variable; the nearest is {nearest}."
