"""The answer to an initialize of ACP v2, as data.

Owns: what we promise in version 2. Must not know: wire structs (see `acp.initialize_response`, which loads this
when a client asks for version 2).
"""

VERSION = 2

EXTENSIONS: dict[str, object] = {
    "pattern": {
        "memory": {"subscribe": True},
        "checkpoint": {"list": True, "preview": True, "restore": True},
        "session": {"rewind": True, "fork": True, "open": True},
        "subagent": {"stop": True},
    }
}
"""Our own methods that work in version 2, by the parts of their names."""

UNSTABLE: tuple[str, ...] = ("fork", "archive", "status", "title")
"""Parts of the unstable schema that are offered for sessions."""


def initialize_result(info: dict[str, object], auth_methods: list[dict[str, object]]) -> dict[str, object]:
    """The result of initialize: exactly what works. The ways to sign in are those of version 1."""
    return {
        "protocolVersion": VERSION,
        "info": info,
        "capabilities": {
            "session": {
                "prompt": {"image": {}, "embeddedContext": {}},
                "mcp": {"stdio": {}, "http": {}, "acp": {}},
                "delete": {},
                "additionalDirectories": {},
                **{name: {} for name in UNSTABLE},
            },
            "auth": {"status": {}},
            "providers": {},
            "_meta": EXTENSIONS,
        },
        "authMethods": [_auth_method(method) for method in auth_methods],
    }


def _auth_method(method: dict[str, object]) -> dict[str, object]:
    rest = {name: value for name, value in method.items() if name != "id"}
    return {"type": "agent", "methodId": method["id"], **rest}
