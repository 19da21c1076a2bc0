"""The effective settings of one process, frozen."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


def repr_without(value: Struct, *hidden: str) -> str:
    """Give the repr of `value` without its fields `hidden`: a repr ends up in logs and in errors."""
    shown = (f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in hidden)
    return f"{type(value).__name__}({', '.join(shown)})"


class Secret(Struct, frozen=True):
    """A key. Never printed, logged, compared by content in errors, or stored in the constellation."""

    value: str
    source: str = ""
    """The variable or file it came from, for error sentences."""

    def __repr__(self) -> str:
        return repr_without(self, "value")

    def __str__(self) -> str:
        """A fixed mask."""
        return "••••"


Wire = Literal["anthropic", "openai", "responses", "gemini", "offline", "scripted"]
"""The formats in which a model is spoken to; `openai` is Chat Completions."""

HTTP_WIRES: frozenset[Wire] = frozenset({"anthropic", "openai", "responses", "gemini"})
"""Those that go over the network."""

Host = Literal["", "vertex", "bedrock"]
"""The clouds that serve the models of the Anthropic wire; empty: their vendor's own API, or one like it."""


CONTINUING = ("prefix", "partial", "continue_final_message")
"""Fields that say that the last message is the beginning of the answer: of the message at Mistral and DeepSeek, and at
Moonshot; of the request at vLLM and llama.cpp."""


class Quirks(Struct, frozen=True):
    """Differences of a server of the OpenAI wire from the others."""

    answer_limit: str = "max_tokens"
    """The name of the field that limits the answer; OpenAI itself always gets `max_completion_tokens`."""
    usage_on_request: bool = True
    """True when `stream_options` is sent, by which servers are asked for token counts in a stream."""
    continues_answers: str = ""
    """The field, one of `CONTINUING`, by which it continues with an answer that broke off; empty if it does not."""


class OAuthSettings(Struct, frozen=True):
    """Sign-in at a provider: addresses and a client id of the user's own, from `[providers.NAME.oauth]`."""

    authorization_url: str = ""
    """The address for the browser; empty: only device codes are possible."""
    token_url: str = ""
    device_url: str = ""
    """The address that device codes come from (RFC 8628); empty: there are none."""
    client_id: str = ""
    scope: str = ""
    """Scopes, with blanks between them."""
    redirect_port: int = 0
    """The port of 127.0.0.1 that the browser comes back to; another one when it is taken. 0: any."""
    gives_key: bool = False
    """OpenRouter's way: the code is exchanged for an API key instead of tokens."""


class ProviderSettings(Struct, frozen=True):
    """One provider: built in (config/providers.py) or from `[providers.NAME]`."""

    name: str
    wire: Wire
    base_url: str = ""
    """Without the wire's own path; `https://api.example.com/v1` for the OpenAI wire."""
    api_key: Secret | None = None
    api_key_env: str = ""
    """The variable that would hold the key, named in error sentences."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request. A header may carry a key, so the values stay out of the repr and of the logs."""
    models: tuple[str, ...] = ()
    """Models offered without asking the server; empty: ask its model list."""
    configured: bool = False
    """True when the user set it up (a key, a base URL or a table), so that it may be chosen by default."""
    key_variable_named: bool = False
    """True when the user's file names the variable of the key, which then beats a stored key."""
    oauth: OAuthSettings | None = None
    script: str = ""
    """Path of the event script of the `scripted` wire."""
    quirks: Quirks = field(default_factory=Quirks)
    needs_key: bool = False
    """True when a request without a key is of no use, although the server is not its wire's vendor."""
    host: Host = ""
    region: str = ""
    """The region of the cloud that `host` is, as that cloud names it."""
    signs: bool = False
    """True when every request is signed with credentials of the cloud; `api_key` then only names theirs."""
    project: str = ""
    """The project that the models belong to at Google; empty: the one that the credentials name."""
    is_routed: bool = False
    """True when the client chose the address: none of the user's keys goes there, only the client's headers."""

    def __repr__(self) -> str:
        return repr_without(self, "headers")


class ModelSettings(Struct, frozen=True):
    """The user's facts of a model, from `[models."PROVIDER/MODEL"]`; 0 and None where they say nothing.

    Windows in tokens, prices in micro-units a million tokens.
    """

    context_window: int = 0
    max_output_tokens: int = 0
    tools: bool | None = None
    images: bool | None = None
    thinking: tuple[str, ...] | None = None
    """Levels; none of them: it does not think."""
    thinking_level: str = ""
    """At which of them new sessions begin, instead of `Settings.thinking`."""
    input_price: int | None = None
    output_price: int | None = None
    cached_price: int | None = None
    cache_write_price: int | None = None


Mode = Literal["ask", "edit", "plan", "auto"]
ThinkingSetting = Literal["auto", "off", "low", "medium", "high", "max"]
IsolationSetting = Literal["none", "core-only", "full"]
SecretsSetting = Literal["block", "ask"]
ReviewSetting = Literal["off", "project"]
OverlapSetting = Literal["tell", "ask", "deny"]
ThemeSetting = Literal["auto", "dark", "light", "plain"]
EditToolSetting = Literal["auto", "edit_file", "apply_patch", "both"]
CacheTtl = Literal["5m", "1h"]
SlowCommands = Literal["end", "background"]
Overlapping = Literal["auto", "steer", "queue", "replace"]
CompactionStrategy = Literal["summarise", "truncate", "importance", "time_decay"]
ReadingCommands = Literal["run", "ask"]
Follow = Literal["ask", "adopt", "keep"]
RuleEffect = Literal["allow", "ask", "deny"]
RuleKind = Literal["run", "edit", "read", "fetch", "mcp"]
RuleFact = Literal["hour", "branch", "requests", "minutes"]
LspMode = Literal["off", "on"]
SandboxSetting = Literal["auto", "require", "off"]
SandboxNetwork = Literal["none", "host"]
LogLevel = Literal["debug", "info", "warning", "error"]

MODES_BY_REACH: tuple[Mode, ...] = ("plan", "ask", "edit", "auto")
"""The modes from the one that may do least to the one that may do most (issue 2, section 9)."""

ISOLATION_BY_REACH: tuple[IsolationSetting, ...] = ("full", "core-only", "none")
"""The kinds of isolation from the one that lets a project do least (issue 3, section 1)."""

LSP_BY_REACH: tuple[LspMode, ...] = ("off", "on")
"""Choices of whether language servers run, from the least."""

REVIEW_BY_REACH: tuple[ReviewSetting, ...] = ("project", "off")
"""Choices of whether the agent's decisions for a project wait for the user, from the least that it may do."""

SECRETS_BY_REACH: tuple[SecretsSetting, ...] = ("block", "ask")
"""Treatments of a secret, from the least."""

READING_BY_REACH: tuple[ReadingCommands, ...] = ("ask", "run")
"""Treatments of commands that only read, from the least."""


SANDBOX_BY_REACH: tuple[SandboxSetting, ...] = ("require", "auto", "off")
"""Choices of how commands are confined, from the one that lets them do least."""

SANDBOX_NETWORK_BY_REACH: tuple[SandboxNetwork, ...] = ("none", "host")
"""Networks of confined commands, from the least."""

CACHE_FOLDERS = (
    "~/.cache", "~/.npm", "~/.yarn", "~/.pnpm-store", "~/.bun/install/cache", "~/.cargo/registry", "~/.cargo/git",
    "~/go/pkg", "~/.gradle", "~/.m2/repository", "~/.nuget/packages", "~/.ivy2", "~/.sbt", "~/.stack", "~/.gem",
    "~/.bundle/cache", "~/.composer/cache", "~/.local/share/pnpm", "~/Library/Caches",
)  # fmt: skip
"""Caches that builds and test runs write to. The programs that fill them read them again in other projects."""


class TurnSettings(Struct, frozen=True):
    """Limits of one turn."""

    max_model_requests: int = 100
    max_wall_seconds: int = 3600
    tool_result_chars: int = 40_000
    command_timeout_seconds: int = 120
    max_output_tokens: int = 32_000
    """Within what the model can write and its window leaves (context/window.py)."""
    provider_idle_seconds: int = 90
    """Longest wait between two bytes of a stream."""
    slow_commands: SlowCommands = "end"
    """The treatment of a command at its time limit."""
    provider_connect_seconds: int = 10
    """A host that does not answer a connection within this is not there."""
    provider_first_byte_seconds: int = 300
    """A laptop's processor reads some 30 tokens a second, and a conversation starts with about 10,000."""
    provider_total_seconds: int = 1800
    """8,192 tokens, the longest answer of a model that nobody knows, at 5 tokens a second, and some more."""
    stream_retries: int = 4
    """Number of times in a row that the model continues with an answer that broke off, before the turn ends there."""
    repeats_noted: int = 3
    """Number of calls with the same arguments and result from which on the model reads a note."""
    repeats_asked: int = 5
    """Number of the call before which the user is asked whether the turn continues."""
    overlapping: Overlapping = "auto"
    """The treatment of a prompt that arrives while a turn runs; `auto` is the custom of the protocol's version."""
    wakes: int = 5
    """Turns of the agent's own in a row, when background work ends, until the user prompts again."""


class DelegateSettings(Struct, frozen=True):
    """Limits of one subagent, and its model. All of its use counts for its turn's limits as well."""

    model: str = ""
    """`PROVIDER/MODEL` of all subagents, or empty for the session's."""
    explorer_model: str = ""
    worker_model: str = ""
    reviewer_model: str = ""
    max_model_requests: int = 40
    max_wall_seconds: int = 900
    max_tool_calls: int = 150
    max_tokens: int = 2_000_000
    """Read and written, over all its requests."""
    worker_changes: Literal["direct", "whole"] = "direct"
    """`whole`: a worker writes into a view of its own, which lands at its end, all of it or nothing."""
    worker_review: Literal["by_mode", "always", "never"] = "by_mode"
    """Occasions on which the user is asked before a worker's changes land; `by_mode`: not in the mode auto."""


class BudgetSettings(Struct, frozen=True):
    """Budgets for models, each in the form of `domain.usage`; empty for no limit (docs/how-to/cost.md)."""

    turn: str = ""
    """One prompt, its subagents included."""
    session: str = ""
    day: str = ""
    """All sessions of the constellation, of all processes."""


class JobSettings(Struct, frozen=True):
    """Settings of jobs (docs/how-to/agreed-jobs.md)."""

    ask_above: str = ""
    """The estimate of a plan, in the form of `domain.usage`, above which a job is offered; empty for never."""


class FetchSettings(Struct, frozen=True):
    """Limits of fetch_url."""

    private_addresses: bool = False
    """True when pages of this machine and its networks may be fetched, such as a development server's."""


class SearchSettings(Struct, frozen=True):
    """The vendor that web_search asks."""

    provider: str = "off"
    """`brave`, `tavily`, `exa`, `searxng`, or `off` for none."""
    url: str = ""
    """Another address than the vendor's own; that of a server of SearXNG."""


class RuleCondition(Struct, frozen=True):
    """One condition of a rule, such as `branch not main` or `minutes < 5` (docs/reference/permissions.md)."""

    fact: RuleFact
    relation: Literal["", "not", "<", ">"]
    value: str
    """From and to of hours, a name of branches with its wildcards, or a number."""

    def __str__(self) -> str:
        """The condition as it is written."""
        return " ".join(filter(None, (self.fact, self.relation, self.value)))


class PolicyRule(Struct, frozen=True):
    """One rule on what the agent may do, from `allow`, `ask` or `deny` of `[policy]` (permissions.md)."""

    effect: RuleEffect
    kind: RuleKind
    pattern: str
    """Words of a command, a path, a host, or SERVER/TOOL; `*` and its like stand for more."""
    reason: str = ""
    layer: Literal["user", "project", "session"] = "user"
    place: str = ""
    """The file and line that it is from, for sentences."""
    conditions: tuple[RuleCondition, ...] = ()
    """All of them have to be met for the rule to count."""

    @property
    def when(self) -> str:
        """The conditions as they are written; empty without any."""
        return " and ".join(map(str, self.conditions))

    def __str__(self) -> str:
        """The rule as it is written, with its list in front."""
        return f"{self.effect} {self.kind} {self.pattern}" + (f" when {self.when}" if self.conditions else "")


class PolicySettings(Struct, frozen=True):
    """Settings of what the agent may do, beside the modes (docs/reference/permissions.md)."""

    sandbox: SandboxSetting = "auto"
    """Confinement of commands that run unasked: where it works, always, or never."""
    sandbox_network: SandboxNetwork = "none"
    """The network of confined commands: none but a loopback of their own, or the machine's."""
    sandbox_writable: tuple[str, ...] = CACHE_FOLDERS
    """Folders that confined commands may write besides the session's; `~` is the user's home."""
    reading_commands: ReadingCommands = "run"
    """The treatment of command lines that surely only read inside the session's folders."""
    remember_mode: bool = False
    """True when a new session begins in the mode of the last one in its folder."""
    rules: tuple[PolicyRule, ...] = ()
    """The user's rules, then those of the project, which only ask and deny."""


class DefinitionSettings(Struct, frozen=True):
    """Settings of personas and instruction files that change while sessions use them (docs/how-to/instructions.md)."""

    follow: Follow = "ask"
    """`ask`: instruction files are adopted, and all else that is the user's own when they say so; `adopt`: all of it;
    `keep`: nothing. What the user chose for a project counts before it."""


class ChatSettings(Struct, frozen=True):
    """Settings of the chat in a terminal (docs/how-to/chat.md)."""

    theme: ThemeSetting = "auto"
    """The ground that its colours are for; `plain` is what a screen reader reads best."""


class ClaimSettings(Struct, frozen=True):
    """Settings of claims: the files that open sessions change (docs/how-to/tasks.md)."""

    overlap: OverlapSetting = "tell"
    """`tell`: the model learns once, before the edit, that another session works there; `ask`: the user decides;
    `deny`: it may not."""


class TaskSettings(Struct, frozen=True):
    """Settings of tasks (docs/how-to/tasks.md)."""

    files: bool = False
    """True when the project's tasks are written as files into it too, `.pattern/tasks/N.md`."""


class CompactionSettings(Struct, frozen=True):
    """Compaction: when the conversation is made shorter for the model, and how (docs/explanation/context.md)."""

    strategy: CompactionStrategy = "summarise"
    threshold_percent: int = 80
    """Percent of what a request may fill: the model's window without the space for its answer."""
    target_percent: int = 60
    """Percent of the same that is left afterwards."""


class MemorySettings(Struct, frozen=True):
    """Settings of memory."""

    embedder: str = "auto"
    """The embedder: `distilled`, `hash`, `minilm`, `mpnet`, `PROVIDER/MODEL`; `auto`: minilm if it is installed."""
    recall_tokens: int = 300
    """Most tokens of what is recalled for a prompt before each turn; 0: nothing is."""
    files: bool = False
    """True when memory is written as files into the project too, `.pattern/memory/LABEL.md`."""
    isolation: IsolationSetting = "none"
    """The isolation of a project from the persona's memory (memory/blocks.py)."""
    secrets: SecretsSetting = "block"
    """The treatment of a text that is to be remembered and seems to have a secret in it."""
    review: ReviewSetting = "off"
    """True when the user is asked before the agent notes a decision, constraint or trap for the project."""


class BackupSettings(Struct, frozen=True):
    """Numbers of snapshots of the constellation that stay; 0 for none of that kind, all 0: none are taken."""

    hourly: int = 24
    daily: int = 7
    monthly: int = 6
    segments: bool = True
    """True when what is committed is written to segments too, from which a destroyed constellation can be rebuilt."""


class RetentionSettings(Struct, frozen=True):
    """Limits of what `pattern-acp gc` leaves. 0 means no limit (docs/how-to/recovery.md)."""

    deleted_days: int = 30
    """The time for which a deleted session can be brought back (issue 5, section 2)."""
    files_days: int = 0
    files_mb: int = 0
    copies_days: int = 30
    snapshots_mb: int = 0
    tell_mb: int = 0


class SyncSettings(Struct, frozen=True):
    """Settings of the exchange of memory with the user's other devices (docs/how-to/sync.md)."""

    url: str = ""
    """`folder:PATH`, `nats://HOST:PORT`, or empty for none."""
    exclude: tuple[str, ...] = ()
    """Folders of projects of which nothing goes and nothing comes."""
    projects: tuple[str, ...] = ()
    """`NAME=FOLDER` of projects that are in other folders on other devices."""
    every_seconds: int = 30
    """Longest time between two exchanges while a session is open."""
    sessions_days: int = 0
    """Days since their last use for which sessions go too; 0: no sessions go."""


class McpOAuthSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Sign-in at an MCP server that does not describe all of it itself: `[mcp_servers.NAME.oauth]`."""

    client_id: str = ""
    """The authorization server's id of the user's program; empty: programs register on their own."""
    client_secret: str = ""
    redirect_port: int = 0
    """The port of 127.0.0.1 that the browser comes back to; another one when it is taken. 0: any."""

    def __repr__(self) -> str:
        return repr_without(self, "client_secret")


class McpServerSettings(Struct, frozen=True):
    """One MCP server, from `[mcp_servers.NAME]` or from the client; it may be one that cannot work.

    `env` and `headers` may carry keys, so the values stay out of the repr and of the logs.
    """

    name: str
    transport: str = "stdio"
    """`stdio`, `http`, `sse` or `acp`; a client may send any other word."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    server_id: str = ""
    """The client's name for a server that it offers over its own connection (`acp`)."""
    oauth: McpOAuthSettings = field(default_factory=McpOAuthSettings)

    def __repr__(self) -> str:
        return repr_without(self, "env", "headers")


class CheckSettings(Struct, frozen=True):
    """One command that runs after edits, from `[checks.NAME]` of the user's file or a project's."""

    name: str
    command: str
    """A line for the platform's shell; `{files}` in it stands for the changed files."""
    files: tuple[str, ...] = ()
    """Patterns of the files after whose change it runs; none for all files."""
    kind: Literal["formatter", "linter", "test"] = "linter"
    when: Literal["after_edit", "on_stop"] = "after_edit"
    """Behind every batch of edits, or once the model has answered and had edited something."""
    feed: Literal["on_failure", "always"] = "on_failure"
    """The results of which the model reads the output."""
    timeout_seconds: int = 60
    source: str = ""
    """The file it is from, for sentences."""


class LspServerSettings(Struct, frozen=True):
    """One language server, from `[lsp.NAME]` of the user's file."""

    name: str
    command: tuple[str, ...]
    languages: tuple[str, ...] = ()
    """Language ids; none: it is not used."""


class LspSettings(Struct, frozen=True):
    """Language servers."""

    mode: LspMode = "on"
    wait_seconds: int = 3
    """Longest that an edit waits for what servers find wrong in it."""
    idle_minutes: int = 10
    """After how long without a question or edit a server is ended."""
    servers: tuple[LspServerSettings, ...] = ()
    """The user's own, before those that are known."""


class HookSettings(Struct, frozen=True):
    """One command that runs at an event, from `[[hooks]]` or a project's file."""

    event: str
    """One of `config.programs.EVENTS`."""
    command: str
    """A line for the platform's shell."""
    matcher: str = ""
    """A regular expression over a tool's whole name; empty for all."""
    timeout_seconds: int = 60
    source: str = ""
    """The file it is from, for sentences."""


class ConstellationSettings(Struct, frozen=True):
    """The place of memory and sessions."""

    name: str = "default"
    """The one that is used; with `per_project`, the one of the user's own memory."""
    per_project: bool = False
    """True when each project has a file of its own (bootstrap/constellation_choice.py)."""


class Flags(Struct, frozen=True):
    """Settings from the command line; None where it says nothing."""

    model: str | None = None
    constellation: str | None = None
    persona: str | None = None
    mode: Mode | None = None
    thinking: ThinkingSetting | None = None
    log_level: LogLevel | None = None
    exact_model: bool = False
    """No other model replaces one that is not available."""
    max_cost: str | None = None
    """The budget of one prompt, which no answer extends."""


class Settings(Struct, frozen=True):
    """Everything that was decided at start."""

    model: str = ""
    """`PROVIDER/MODEL`, or empty to choose (providers/choose.py)."""
    constellation: ConstellationSettings = field(default_factory=ConstellationSettings)
    persona: str = "default"
    mode: Mode = "ask"
    thinking: ThinkingSetting = "auto"
    """The amount of thinking that a new session asks of its model; `auto`: as its vendor lets it, or `medium`."""
    thinking_is_set: bool = False
    """True if the user set `thinking`, even to its default, so that no choice in an earlier session counts."""
    fixed: frozenset[str] = frozenset()
    """Names of the settings that a flag or a variable of this process sets: they count before what a persona says."""
    log_level: LogLevel = "info"
    edit_tool: EditToolSetting = "auto"
    """The edit tool that the model is offered; `auto`: the one that it was trained on."""
    editor_deadline_seconds: int = 20
    """Longest wait for one answer of the editor to a file or terminal request."""
    fallback: tuple[str, ...] = ()
    """`PROVIDER/MODEL` of those that replace a model that is out, in this order (providers/fallback.py)."""
    fallback_after_seconds: int = 30
    """Longest rate limit that is waited for while a model of `fallback` is left."""
    cache_ttl: CacheTtl = "5m"
    """The time for which a provider is asked to cache the prefix of a session."""
    turn: TurnSettings = field(default_factory=TurnSettings)
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    definitions: DefinitionSettings = field(default_factory=DefinitionSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
    claims: ClaimSettings = field(default_factory=ClaimSettings)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    sync: SyncSettings = field(default_factory=SyncSettings)
    delegate: DelegateSettings = field(default_factory=DelegateSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    policy: PolicySettings = field(default_factory=PolicySettings)
    lsp: LspSettings = field(default_factory=LspSettings)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    """The user's facts of models, by `PROVIDER/MODEL`."""
    mcp_servers: Mapping[str, McpServerSettings] = field(default_factory=dict[str, McpServerSettings])
    checks: tuple[CheckSettings, ...] = ()
    """The user's own checks; those of a project are an offer until they are trusted (config/project_offer.py)."""
    hooks: tuple[HookSettings, ...] = ()
    """The user's own hooks; those of a project are an offer until they are trusted (config/project_offer.py)."""
