"""initialize promises exactly what works."""

import msgspec

from pattern_acp import __version__
from pattern_acp.acp import schema
from pattern_acp.acp.agent import AUTH_METHOD, TERMINAL_AUTH_METHOD, auth_methods, initialize_response
from pattern_acp.acp.client import abilities_of, description_of


def test_the_promises_are_exactly_what_works():
    response = msgspec.json.decode(msgspec.json.encode(initialize_response(schema.ClientCapabilities())))

    assert response == {
        "protocolVersion": 1,
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
            "_meta": {
                "pattern": {
                    "memory": {"subscribe": True},
                    "checkpoint": {"list": True, "preview": True, "restore": True},
                    "session": {"rewind": True, "fork": True, "open": True, "subscribe": True},
                    "subagent": {"stop": True},
                    "board": True,
                }
            },
        },
        "authMethods": [
            {
                "id": AUTH_METHOD,
                "name": "Key from the environment, the keyring or config.toml",
                "description": response["authMethods"][0]["description"],
            }
        ],
        "agentInfo": {"name": "pattern-acp", "title": "Pattern", "version": __version__},
    }


def test_one_agent_method_is_always_first_so_that_clients_that_try_the_first_get_through():
    for client in (
        schema.ClientCapabilities(),
        schema.ClientCapabilities(auth=schema.AuthCapabilities(terminal=True)),
    ):
        first = auth_methods(client)[0]
        assert first.id == AUTH_METHOD
        assert first.type is None


def test_a_terminal_method_is_offered_only_to_clients_that_have_one():
    plain = schema.ClientCapabilities(terminal=True)
    new = schema.ClientCapabilities(auth=schema.AuthCapabilities(terminal=True))
    old = schema.ClientCapabilities(meta={"terminal-auth": True})

    assert TERMINAL_AUTH_METHOD not in [method.id for method in auth_methods(plain)]
    for client in (new, old):
        method = auth_methods(client)[-1]
        assert (method.id, method.type, method.args) == (TERMINAL_AUTH_METHOD, "terminal", ("doctor",))


def test_what_a_client_leaves_out_is_not_offered():
    nothing = schema.ClientCapabilities()
    assert not abilities_of(nothing).terminal_meta
    assert not abilities_of(nothing).embeds_terminals
    assert description_of(nothing, None).capabilities == ()


def test_what_a_client_promises_is_told_to_the_model():
    full = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True), terminal=True)
    described = description_of(full, schema.Implementation(name="zed", title="Zed", version="1"))
    assert abilities_of(full).embeds_terminals
    assert abilities_of(schema.ClientCapabilities(meta={"terminal_output": True})).terminal_meta
    assert described.name == "Zed"
    assert len(described.capabilities) == 2
