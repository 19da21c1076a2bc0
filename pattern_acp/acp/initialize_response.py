"""The answer to initialize, as data.

Owns: what we promise, and which first lines can be answered before anything else of the program is loaded. Must not
know: wire structs, which take longer to import than this takes to answer. `acp.agent` gives the same as structs,
and whatever is unusual about a first line is left to it.
"""

import json
from typing import NoReturn, TypeAlias, cast

from pattern_acp import __version__

PROTOCOL_VERSION = 1
"""The version of clients that introduce themselves as version 1 does, whatever number they ask for."""

SECOND_VERSION = 2
"""The newest version; spoken where a client asks for it, or for a newer one, in its form (`asks_for_second`)."""

AUTH_METHOD = "environment"
"""Harmless and instant: CodeCompanion calls authenticate with the first method that is listed."""

LOGIN_METHOD = "login"
TERMINAL_AUTH_METHOD = "doctor"

EXTENSIONS: dict[str, object] = {
    "pattern": {
        "memory": {"subscribe": True},
        "checkpoint": {"list": True, "preview": True, "restore": True},
        "session": {"rewind": True, "fork": True, "open": True, "subscribe": True},
        "subagent": {"stop": True},
        "board": True,
    }
}
"""Our own methods, by the parts of their names: `_pattern/memory/subscribe` and what belongs to it."""

_KEY: dict[str, object] = {
    "id": AUTH_METHOD,
    "name": "Key from the environment, the keyring or config.toml",
    "description": (
        "Run `pattern-acp auth login PROVIDER` in a terminal, set ANTHROPIC_API_KEY, OPENAI_API_KEY or "
        "GEMINI_API_KEY in the agent's env, or name a provider in config.toml. "
        "A local server (Ollama, LM Studio, llama-server) needs no key."
    ),
}

_IN_TERMINAL: tuple[dict[str, object], ...] = (
    {
        "id": LOGIN_METHOD,
        "name": "Sign in in a terminal",
        "description": ("Runs `pattern-acp auth login`, which asks for the provider and its key, or opens a browser."),
        "type": "terminal",
        "args": ["auth", "login"],
    },
    {
        "id": TERMINAL_AUTH_METHOD,
        "name": "Check the set-up in a terminal",
        "description": "Runs `pattern-acp doctor`, which says what is missing and how to fix it.",
        "type": "terminal",
        "args": ["doctor"],
    },
)
"""Steps of the user outside the editor, for clients that can open a terminal for them."""

_LARGEST_ID = 2**53
"""Beyond it not every JSON reader keeps a number; such an id is left to the ordinary way."""

_LARGEST_VERSION = 65535
"""The schema's protocol version has 16 bits."""

_Members: TypeAlias = dict[str, object]


def initialize_result(*, in_terminal: bool) -> dict[str, object]:
    """The result of initialize: exactly what works. `in_terminal`: the client can run sign-in methods in one."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "additionalDirectories": {},
                "resume": {},
                "close": {},
                "fork": {},
            },
            "auth": {"logout": {}},
            "_meta": EXTENSIONS,
        },
        "authMethods": auth_methods(in_terminal=in_terminal),
        "agentInfo": implementation(),
    }


def implementation() -> dict[str, object]:
    """Our name and version."""
    return {"name": "pattern-acp", "title": "Pattern", "version": __version__}


def second_result(*, in_terminal: bool) -> dict[str, object]:
    """The result of initialize in version 2."""
    from pattern_acp.acp.second_introduction import initialize_result

    return initialize_result(implementation(), auth_methods(in_terminal=in_terminal))


def asks_for_second(params: object) -> bool:
    """Tell whether an initialize is one of version 2: it has its number or a newer one, and its form."""
    if not isinstance(params, dict):
        return False
    members = cast("_Members", params)
    version = members.get("protocolVersion")
    is_newer = type(version) is int and SECOND_VERSION <= version <= _LARGEST_VERSION
    return is_newer and has_second_form(members)


def has_second_form(members: dict[str, object]) -> bool:
    """Tell whether the parameters are named as in version 2, where the information about the client is required."""
    info = members.get("info")
    return isinstance(info, dict) and "name" in info and "clientCapabilities" not in members


def second_in_terminal(params: object) -> bool:
    """Tell whether a client of version 2 runs sign-in methods in a terminal; what does not fit promises nothing."""
    promised = cast("_Members", params).get("capabilities") if isinstance(params, dict) else None
    auth = cast("_Members", promised).get("auth") if isinstance(promised, dict) else None
    return isinstance(auth, dict) and isinstance(cast("_Members", auth).get("terminal"), dict)


def auth_methods(*, in_terminal: bool) -> list[dict[str, object]]:
    """The ways to sign in. At least one of agent type always: the registry demands it."""
    methods: list[dict[str, object]] = [_KEY]
    return [*methods, *_IN_TERMINAL] if in_terminal else methods


def answer_plainly(line: bytes) -> bytes | None:
    """The line that answers `line` when that is an ordinary initialize; None when it is anything else.

    What gets an answer here gets the same from `acp.agent`.
    """
    try:
        message = cast("object", json.loads(line.decode("utf-8"), parse_constant=_refuse))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    request = cast("_Members", message)
    params, request_id = request.get("params"), request.get("id")
    is_plain = request.get("jsonrpc") == "2.0" and request.get("method") == "initialize" and _is_plain_id(request_id)
    if not is_plain:
        return None
    if asks_for_second(params):
        result = second_result(in_terminal=second_in_terminal(params))
    else:
        in_terminal = _runs_in_terminal(params)
        if in_terminal is None:
            return None
        result = initialize_result(in_terminal=in_terminal)
    answer = {"jsonrpc": "2.0", "id": request_id, "result": result}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _is_plain_id(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii()
    return type(value) is int and abs(value) <= _LARGEST_ID


def _runs_in_terminal(params: object) -> bool | None:
    """Tell whether the client runs sign-in methods in a terminal; None when its parameters are not plain ones."""
    if not isinstance(params, dict):
        return None
    members = cast("_Members", params)
    version, promised = members.get("protocolVersion"), members.get("clientCapabilities", {})
    if version == 0 and has_second_form(members):
        return None
    if type(version) is not int or not 0 <= version <= _LARGEST_VERSION or not isinstance(promised, dict):
        return None
    promises = cast("_Members", promised)
    auth, meta = promises.get("auth", {}), promises.get("_meta", {})
    if not isinstance(auth, dict) or not isinstance(meta, dict):
        return None
    terminal = cast("_Members", auth).get("terminal", False)
    if not isinstance(terminal, bool):
        return None
    return terminal or cast("_Members", meta).get("terminal-auth") is True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
