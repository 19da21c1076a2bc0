from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import LaunchContext, RemoteTool, news_of, pin_of
from pattern_acp.mcp_servers.server import Server
from tests.support.mcp_fakes import means

ECHO = RemoteTool("echo", "Echoes.", {"type": "object"})


def test_a_server_that_nobody_agreed_to_is_news():
    assert "first use" in news_of("s", ECHO, {}).sentence


def test_what_was_agreed_to_is_no_news():
    assert news_of("s", ECHO, {"echo": pin_of(ECHO)}).sentence == ""


def test_a_tool_that_was_not_there_is_news():
    assert "added" in news_of("s", RemoteTool("more", "", {}), {"echo": pin_of(ECHO)}).sentence


@given(st.sampled_from(["description", "schema", "read_only"]))
def test_every_part_of_a_definition_counts(part: str):
    changed = {
        "description": RemoteTool("echo", "Echoes!", {"type": "object"}),
        "schema": RemoteTool("echo", "Echoes.", {"type": "object", "required": ["text"]}),
        "read_only": RemoteTool("echo", "Echoes.", {"type": "object"}, read_only=True),
    }[part]
    news = news_of("s", changed, {"echo": pin_of(ECHO)})
    assert "changed" in news.sentence
    assert news.before == ECHO.definition


def test_the_order_of_a_schemas_keys_is_no_change():
    one = RemoteTool("a", "", {"type": "object", "properties": {}})
    other = RemoteTool("a", "", {"properties": {}, "type": "object"})
    assert one.digest == other.digest


def test_a_server_is_told_by_what_is_started_and_not_by_its_keys():
    def identity(settings: McpServerSettings) -> str:
        return Server(settings, LaunchContext("/", means())).identity

    one = identity(McpServerSettings("a", command="x", args=("y",), env={"KEY": "1"}))
    assert one == identity(McpServerSettings("a", command="x", args=("y",), env={"KEY": "2"}))
    assert one != identity(McpServerSettings("a", command="x", args=("z",)))
    assert one != identity(McpServerSettings("a", "http", url="http://x"))
