"""What we promise in initialize.

Imports nothing but the wire structs, so that initialize is answered before anything heavy is loaded.
"""

from pattern_acp import __version__
from pattern_acp.acp import schema

AUTH_METHOD = "environment"
"""Harmless and instant: CodeCompanion calls authenticate with the first method that is listed."""

LOGIN_METHOD = "login"
TERMINAL_AUTH_METHOD = "doctor"

EXTENSIONS: dict[str, object] = {
    "pattern": {
        "memory": {"subscribe": True},
        "checkpoint": {"list": True, "preview": True, "restore": True},
        "session": {"rewind": True, "fork": True, "open": True},
    }
}
"""Our own methods, by the parts of their names: `_pattern/memory/subscribe` and what belongs to it."""


def initialize_response(client: schema.ClientCapabilities) -> schema.InitializeResponse:
    """The answer to initialize: exactly what works."""
    flag = schema.Flag()
    return schema.InitializeResponse(
        protocol_version=schema.PROTOCOL_VERSION,
        agent_capabilities=schema.AgentCapabilities(
            load_session=True,
            prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
            mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
            session_capabilities=schema.SessionCapabilities(
                list=flag, delete=flag, additional_directories=flag, resume=flag, close=flag, fork=flag
            ),
            auth=schema.AgentAuthCapabilities(logout=flag),
            meta=EXTENSIONS,
        ),
        auth_methods=auth_methods(client),
        agent_info=schema.Implementation(name="pattern-acp", title="Pattern", version=__version__),
    )


def auth_methods(client: schema.ClientCapabilities) -> tuple[schema.AuthMethod, ...]:
    """The ways to sign in. At least one of agent type always: the registry demands it."""
    methods = [
        schema.AuthMethod(
            id=AUTH_METHOD,
            name="Key from the environment, the keyring or config.toml",
            description=(
                "Run `pattern-acp auth login PROVIDER` in a terminal, set ANTHROPIC_API_KEY, OPENAI_API_KEY or "
                "GEMINI_API_KEY in the agent's env, or name a provider in config.toml. "
                "A local server (Ollama, LM Studio, llama-server) needs no key."
            ),
        )
    ]
    if client.auth.terminal or client.has_meta("terminal-auth"):
        methods.append(
            _terminal_method(
                LOGIN_METHOD,
                "Sign in in a terminal",
                "Runs `pattern-acp auth login`, which asks for the provider and its key, or opens a browser.",
                ("auth", "login"),
            )
        )
        methods.append(
            _terminal_method(
                TERMINAL_AUTH_METHOD,
                "Check the set-up in a terminal",
                "Runs `pattern-acp doctor`, which says what is missing and how to mend it.",
                ("doctor",),
            )
        )
    return tuple(methods)


def _terminal_method(name: str, title: str, description: str, args: tuple[str, ...]) -> schema.AuthMethod:
    return schema.AuthMethod(id=name, name=title, description=description, type="terminal", args=args)
