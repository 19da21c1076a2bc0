"""Settings: the key of each, what it may hold, where it may be set.

Owns: the table of keys. Must not know: files, precedence, or what a setting does. Providers are described in
config/providers.py, since their keys repeat for each name.
"""

from enum import Enum

from msgspec import Struct

from pattern_acp.config.settings import (
    ISOLATION_BY_REACH,
    LSP_BY_REACH,
    MODES_BY_REACH,
    READING_BY_REACH,
    REVIEW_BY_REACH,
    SANDBOX_BY_REACH,
    SANDBOX_NETWORK_BY_REACH,
    SECRETS_BY_REACH,
    BackupSettings,
    ChatSettings,
    ClaimSettings,
    CompactionSettings,
    DefinitionSettings,
    DelegateSettings,
    FetchSettings,
    LspSettings,
    MemorySettings,
    PolicySettings,
    RetentionSettings,
    SearchSettings,
    Settings,
    SyncSettings,
    TaskSettings,
    TurnSettings,
)
from pattern_acp.config.values import (
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
    default: Value
    variable: str = ""
    flag: str = ""
    project: ProjectRule = ProjectRule.NEVER
    when_empty: str = "automatic"
    """The meaning of an empty value, for doctor."""
    reach: tuple[Value, ...] = ()
    """The choices from the one that may do least to the one that may do most, for `ProjectRule.NARROWER`."""


def _budget(field: str, summary: str, flag: str = "") -> Key:
    return Key(name=f"budget.{field}", summary=summary, rule=AMOUNT, default="", flag=flag, when_empty="no limit")


def _turn_limit(field: str, summary: str, low: int, high: int, default: int) -> Key:
    return Key(
        name=f"turn.{field}",
        summary=summary,
        rule=number(low, high),
        default=default,
        project=ProjectRule.LOWER,
    )


def _snapshots(field: str, what: str, default: int) -> Key:
    return Key(
        name=f"backup.{field}",
        summary=f"Snapshots of the constellation that stay, the newest of each of so many {what}; 0 for none.",
        rule=number(0, 1000),
        default=default,
    )


def _retention(field: str, summary: str, low: int, default: int) -> Key:
    high = 36_500 if field.endswith("_days") else 100_000_000
    return Key(
        name=f"retention.{field}",
        summary=summary,
        rule=number(low, high),
        default=default,
    )


def _delegate_limit(field: str, summary: str, high: int, default: int) -> Key:
    return Key(
        name=f"delegate.{field}",
        summary=summary,
        rule=number(1, high),
        default=default,
        project=ProjectRule.LOWER,
    )


def _delegate_model(field: str, who: str, otherwise: str) -> Key:
    return Key(
        name=f"delegate.{field}",
        summary=f"The model of {who}; empty for {otherwise}.",
        rule=MODEL,
        default="",
        when_empty=otherwise,
        project=ProjectRule.CONFIGURED,
    )


_SETTINGS = Settings()
_TURN = TurnSettings()
_MEMORY = MemorySettings()
_SYNC = SyncSettings()
_FETCH = FetchSettings()
_SEARCH = SearchSettings()
_DEFINITIONS = DefinitionSettings()
_CHAT = ChatSettings()
_CLAIMS = ClaimSettings()
_TASKS = TaskSettings()
_POLICY = PolicySettings()
_DELEGATE = DelegateSettings()
_COMPACTION = CompactionSettings()
_LSP = LspSettings()
_BACKUP = BackupSettings()
_RETENTION = RetentionSettings()
_LEVELS = ("debug", "info", "warning", "error")

KEYS: tuple[Key, ...] = (
    Key(
        name="model",
        summary="The model that answers; empty to choose the first one that is set up.",
        rule=MODEL,
        default=_SETTINGS.model,
        variable="PATTERN_ACP_MODEL",
        flag="--model",
        project=ProjectRule.CONFIGURED,
    ),
    Key(
        name="constellation",
        summary="The memory to use.",
        rule=FILE_NAME,
        default=_SETTINGS.constellation,
        variable="PATTERN_ACP_CONSTELLATION",
        flag="--constellation",
    ),
    Key(
        name="persona",
        summary="Who answers.",
        rule=FILE_NAME,
        default=_SETTINGS.persona,
        flag="--persona",
    ),
    Key(
        name="mode",
        summary="What runs without a question in a new session.",
        rule=choice("ask", "edit", "plan", "auto"),
        default=_SETTINGS.mode,
        variable="PATTERN_ACP_MODE",
        flag="--mode",
        project=ProjectRule.NARROWER,
        reach=MODES_BY_REACH,
    ),
    Key(
        name="thinking",
        summary="How much the model thinks in a new session; auto: as its vendor lets it, or medium if it would not.",
        rule=choice("auto", "off", "low", "medium", "high", "max"),
        default=_SETTINGS.thinking,
        variable="PATTERN_ACP_THINKING",
        flag="--thinking",
    ),
    Key(
        name="log_level",
        summary="The least serious message that the log keeps.",
        rule=choice(*_LEVELS),
        default=_SETTINGS.log_level,
        variable="PATTERN_ACP_LOG",
        flag="--log-level",
    ),
    Key(
        name="edit_tool",
        summary="The tool that the model edits files with; auto for the one that it was trained on.",
        rule=choice("auto", "edit_file", "apply_patch", "both"),
        default=_SETTINGS.edit_tool,
    ),
    Key(
        name="fallback",
        summary="Fallback models, in this order, when the chosen one is overloaded or cannot be reached.",
        rule=MODELS,
        default=_SETTINGS.fallback,
    ),
    Key(
        name="fallback_after_seconds",
        summary="Longest rate limit that is waited for while a model of `fallback` is left.",
        rule=number(0, 3600),
        default=_SETTINGS.fallback_after_seconds,
    ),
    Key(
        name="cache_ttl",
        summary="How long Anthropic keeps the prefix of a session in its cache; an hour costs more to write.",
        rule=choice("5m", "1h"),
        default=_SETTINGS.cache_ttl,
    ),
    Key(
        name="editor_deadline_seconds",
        summary="Longest wait for one answer of the editor to a file or terminal request.",
        rule=number(1, 600),
        default=_SETTINGS.editor_deadline_seconds,
        project=ProjectRule.LOWER,
    ),
    Key(
        name="memory.embedder",
        summary="What finds memory by meaning.",
        rule=EMBEDDER,
        default=_MEMORY.embedder,
    ),
    Key(
        name="memory.recall_tokens",
        summary="Most tokens of what is recalled for a prompt before each turn; 0 for none.",
        rule=number(0, 4000),
        default=_MEMORY.recall_tokens,
        project=ProjectRule.LOWER,
    ),
    Key(
        name="memory.files",
        summary="Whether memory is also stored as files in the project, .pattern/memory/LABEL.md.",
        rule=YES_OR_NO,
        default=_MEMORY.files,
    ),
    Key(
        name="memory.isolation",
        summary="How far a project is separated from the persona's memory.",
        rule=choice("none", "core-only", "full"),
        default=_MEMORY.isolation,
        project=ProjectRule.NARROWER,
        reach=ISOLATION_BY_REACH,
    ),
    Key(
        name="memory.secrets",
        summary="What happens when a text to remember seems to hold a secret.",
        rule=choice(*SECRETS_BY_REACH),
        default=_MEMORY.secrets,
        project=ProjectRule.NARROWER,
        reach=SECRETS_BY_REACH,
    ),
    Key(
        name="memory.review",
        summary="Whether you are asked before the agent notes a decision, constraint or trap for the project.",
        rule=choice(*REVIEW_BY_REACH),
        default=_MEMORY.review,
        project=ProjectRule.NARROWER,
        reach=REVIEW_BY_REACH,
    ),
    Key(
        name="compaction.strategy",
        summary="How a conversation that fills the model's window is made shorter.",
        rule=choice("summarise", "truncate", "importance", "time_decay"),
        default=_COMPACTION.strategy,
    ),
    Key(
        name="compaction.threshold_percent",
        summary="Where that begins, in percent of the window without the space for the answer.",
        rule=number(30, 95),
        default=_COMPACTION.threshold_percent,
    ),
    Key(
        name="compaction.target_percent",
        summary="What it leaves, in percent of the same.",
        rule=number(10, 90),
        default=_COMPACTION.target_percent,
    ),
    _snapshots("hourly", "hours", _BACKUP.hourly),
    _snapshots("daily", "days", _BACKUP.daily),
    _snapshots("monthly", "months", _BACKUP.monthly),
    Key(
        name="backup.segments",
        summary="Whether all that is recorded is written to files beside the constellation too, to rebuild it from.",
        rule=YES_OR_NO,
        default=_BACKUP.segments,
    ),
    _retention("deleted_days", "For how many days a deleted session can be brought back.", 1, _RETENTION.deleted_days),
    _retention(
        "files_days",
        "For how many days gc leaves contents of files that checkpoints keep; 0 for as long as their sessions.",
        0,
        _RETENTION.files_days,
    ),
    _retention(
        "files_mb", "How many MB of them gc leaves, the newest ones; 0 for all of them.", 0, _RETENTION.files_mb
    ),
    _retention(
        "copies_days",
        "For how many days gc leaves copies of restores, rebuilds and migrations, and replaced segments.",
        1,
        _RETENTION.copies_days,
    ),
    _retention(
        "snapshots_mb",
        "How many MB of snapshots gc leaves, the newest ones, at least one; 0 for all of them.",
        0,
        _RETENTION.snapshots_mb,
    ),
    _retention(
        "tell_mb", "A start says so when gc could free at least so many MB; 0 to say nothing.", 0, _RETENTION.tell_mb
    ),
    Key(
        name="sync.url",
        summary="Where memory is exchanged with your other devices: folder:PATH of any file-sync tool, or nats://HOST:PORT.",
        rule=SYNC_URL,
        default=_SYNC.url,
        when_empty="nowhere",
    ),
    Key(
        name="sync.exclude",
        summary="Folders of projects of which no memory goes to other devices, and none comes.",
        rule=FOLDERS,
        default=_SYNC.exclude,
        when_empty="none",
    ),
    Key(
        name="sync.projects",
        summary="Projects that are in other folders on other devices, by a name that is the same on all.",
        rule=NAMED_FOLDERS,
        default=_SYNC.projects,
        when_empty="none",
    ),
    Key(
        name="sync.every_seconds",
        summary="Longest time between two exchanges while a session is open.",
        rule=number(1, 86_400),
        default=_SYNC.every_seconds,
    ),
    Key(
        name="sync.sessions_days",
        summary="Days since their last use for which sessions go to other devices too; 0: no sessions go.",
        rule=number(0, 36_500),
        default=_SYNC.sessions_days,
    ),
    Key(
        name="fetch.private_addresses",
        summary="Whether fetch_url may reach this machine and its networks, such as a development server.",
        rule=YES_OR_NO,
        default=_FETCH.private_addresses,
    ),
    Key(
        name="search.provider",
        summary="Provider of web_search; its key: `auth login NAME`, or BRAVE_API_KEY, TAVILY_API_KEY or EXA_API_KEY.",
        rule=choice("off", "brave", "tavily", "exa", "searxng"),
        default=_SEARCH.provider,
    ),
    Key(
        name="search.url",
        summary="Address of the server of SearXNG, or of a proxy in front of another provider.",
        rule=WEB_ADDRESS,
        default=_SEARCH.url,
        when_empty="the provider's own",
    ),
    Key(
        name="policy.sandbox",
        summary="Whether commands that run unasked are confined: where it works, always (or they do not run), or not.",
        rule=choice("auto", "require", "off"),
        default=_POLICY.sandbox,
        project=ProjectRule.NARROWER,
        reach=SANDBOX_BY_REACH,
    ),
    Key(
        name="policy.sandbox_network",
        summary="The network of confined commands: none but a loopback of their own, or that of the machine.",
        rule=choice("none", "host"),
        default=_POLICY.sandbox_network,
        project=ProjectRule.NARROWER,
        reach=SANDBOX_NETWORK_BY_REACH,
    ),
    Key(
        name="policy.sandbox_writable",
        summary="Folders that confined commands may write besides the session's, such as caches of package managers.",
        rule=FOLDERS,
        default=_POLICY.sandbox_writable,
    ),
    Key(
        name="policy.remember_mode",
        summary="Whether a new session begins in the mode of the last one in its folder or project, not in `mode`.",
        rule=YES_OR_NO,
        default=_POLICY.remember_mode,
    ),
    Key(
        name="policy.reading_commands",
        summary="Whether commands that surely only read inside the session's folders run unasked, in every mode.",
        rule=choice("run", "ask"),
        default=_POLICY.reading_commands,
        project=ProjectRule.NARROWER,
        reach=READING_BY_REACH,
    ),
    Key(
        name="definitions.follow",
        summary="Whether a session asks about changed definitions (ask), takes them over (adopt) or not (keep).",
        rule=choice("ask", "adopt", "keep"),
        default=_DEFINITIONS.follow,
    ),
    Key(
        name="chat.theme",
        summary="Colours of the chat: for a dark or a light ground, by the terminal (auto), or none (plain).",
        rule=choice("auto", "dark", "light", "plain"),
        default=_CHAT.theme,
    ),
    Key(
        name="claims.overlap",
        summary="What happens before an edit of a file that another open session changes.",
        rule=choice("tell", "ask", "deny"),
        default=_CLAIMS.overlap,
    ),
    Key(
        name="tasks.files",
        summary="Whether the project's tasks are also stored as files in it, .pattern/tasks/N.md.",
        rule=YES_OR_NO,
        default=_TASKS.files,
    ),
    _delegate_model("model", "subagents", "that of the session"),
    _delegate_model("explorer_model", "explorers", "that of all subagents"),
    _delegate_model("worker_model", "workers", "that of all subagents"),
    _delegate_model("reviewer_model", "reviewers", "that of all subagents"),
    _delegate_limit("max_model_requests", "Model requests of one subagent.", 10_000, _DELEGATE.max_model_requests),
    _delegate_limit("max_wall_seconds", "Duration of one subagent.", 86_400, _DELEGATE.max_wall_seconds),
    _delegate_limit("max_tool_calls", "Tool calls of one subagent.", 100_000, _DELEGATE.max_tool_calls),
    _delegate_limit(
        "max_tokens", "Tokens that all requests of one subagent read and write.", 1_000_000_000, _DELEGATE.max_tokens
    ),
    Key(
        name="delegate.worker_changes",
        summary="A worker's changes are made at once (direct), or at its end, all of them or none (whole).",
        rule=choice("direct", "whole"),
        default=_DELEGATE.worker_changes,
    ),
    Key(
        name="delegate.worker_review",
        summary="Whether you are asked before a worker's changes land as a whole; by_mode: not in the mode auto.",
        rule=choice("by_mode", "always", "never"),
        default=_DELEGATE.worker_review,
    ),
    Key(
        name="lsp.mode",
        summary='Whether language servers say what an edit broke; `lsp = "off"` is short for it.',
        rule=choice("on", "off"),
        default=_LSP.mode,
        project=ProjectRule.NARROWER,
        reach=LSP_BY_REACH,
    ),
    Key(
        name="lsp.wait_seconds",
        summary="Longest that an edit waits for what language servers find wrong in it.",
        rule=number(0, 60),
        default=_LSP.wait_seconds,
        project=ProjectRule.LOWER,
    ),
    Key(
        name="lsp.idle_minutes",
        summary="After how long without an edit or question a language server is ended.",
        rule=number(1, 1440),
        default=_LSP.idle_minutes,
        project=ProjectRule.LOWER,
    ),
    _budget("turn", "What the models of one prompt may cost, subagents included.", "--max-cost"),
    _budget("session", "What the models of one session may cost."),
    _budget("day", "What the models of all sessions may cost in a day."),
    _turn_limit("max_model_requests", "Model requests in one turn.", 1, 10_000, _TURN.max_model_requests),
    _turn_limit("max_wall_seconds", "Duration of one turn.", 1, 86_400, _TURN.max_wall_seconds),
    _turn_limit(
        "tool_result_chars",
        "Length of one tool result for the model; a file that it reads may have 2.5 times as much.",
        1000,
        1_000_000,
        _TURN.tool_result_chars,
    ),
    _turn_limit(
        "command_timeout_seconds",
        "Duration of a command that names no other.",
        1,
        86_400,
        _TURN.command_timeout_seconds,
    ),
    _turn_limit(
        "max_output_tokens",
        "Most tokens of one answer, beside its reasoning; fewer where the model's own limit is lower.",
        1,
        1_000_000,
        _TURN.max_output_tokens,
    ),
    _turn_limit(
        "provider_connect_seconds", "Longest wait for a provider's connection.", 1, 600, _TURN.provider_connect_seconds
    ),
    _turn_limit(
        "provider_first_byte_seconds",
        "Longest wait for the first byte of a model's answer.",
        1,
        7200,
        _TURN.provider_first_byte_seconds,
    ),
    _turn_limit(
        "provider_total_seconds",
        "Longest that one answer of a model may take.",
        1,
        86_400,
        _TURN.provider_total_seconds,
    ),
    _turn_limit(
        "provider_idle_seconds",
        "Longest wait between two bytes of a model's stream.",
        1,
        3600,
        _TURN.provider_idle_seconds,
    ),
    _turn_limit(
        "stream_retries",
        "How often in a row the model is asked to continue an answer whose connection broke; 0 for never.",
        0,
        20,
        _TURN.stream_retries,
    ),
    _turn_limit(
        "repeats_noted",
        "The model reads a note from this call on when it repeats one, with the same result and no change in between.",
        2,
        1000,
        _TURN.repeats_noted,
    ),
    _turn_limit(
        "repeats_asked",
        "You are asked before this call when the model repeats one, with the same result and no change in between.",
        2,
        1000,
        _TURN.repeats_asked,
    ),
    Key(
        name="turn.slow_commands",
        summary="What becomes of a command at its time limit: it is ended, or continues in the background.",
        rule=choice("end", "background"),
        default=_TURN.slow_commands,
    ),
    Key(
        name="turn.overlapping",
        summary="What becomes of a prompt while a turn runs: it steers the turn, waits for its end, or replaces it. "
        "auto: steer in version 2 of ACP, replace in version 1.",
        rule=choice("auto", "steer", "queue", "replace"),
        default=_TURN.overlapping,
    ),
    _turn_limit(
        "wakes",
        "How many turns in a row the agent begins unasked, when background work ends while nothing runs, until "
        "you prompt again; 0 for none. Version 2 of ACP only.",
        0,
        100,
        _TURN.wakes,
    ),
)
