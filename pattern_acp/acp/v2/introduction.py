"""The answer to an initialize of ACP v2, as data.

Owns: what we promise in version 2. Must not know: wire structs (see `acp.initialize_response`).
"""

from pattern_acp.acp.initialize_response import (
    SECOND_VERSION,
    auth_methods,
    implementation,
)

EXTENSIONS: dict[str, object] = {
    "pattern": {
        "memory": {"subscribe": True},
        "checkpoint": {"list": True, "preview": True, "restore": True},
        "session": {"rewind": True},
        "subagent": {"stop": True},
    }
}
"""Our own methods that work in version 2, by the parts of their names."""


def initialize_result(*, in_terminal: bool) -> dict[str, object]:
    """The result of initialize: exactly what works. `in_terminal`: the client can run sign-in methods in one."""
    return {
        "protocolVersion": SECOND_VERSION,
        "info": implementation(),
        "capabilities": {
            "session": {
                "prompt": {"image": {}, "embeddedContext": {}},
                "mcp": {"stdio": {}, "http": {}},
                "delete": {},
                "additionalDirectories": {},
            },
            "_meta": EXTENSIONS,
        },
        "authMethods": [_auth_method(method) for method in auth_methods(in_terminal=in_terminal)],
    }


def _auth_method(method: dict[str, object]) -> dict[str, object]:
    rest = {name: value for name, value in method.items() if name != "id"}
    return {"type": "agent", "methodId": method["id"], **rest}
