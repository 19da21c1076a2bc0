import mcp_types as types

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.mcp_servers.connection import tool_of
from pattern_acp.mcp_servers.listing import call_reply, content_reply, prompt_text


def test_what_cannot_be_shown_is_named():
    reply = content_reply(
        [
            types.TextContent(text="one"),
            types.AudioContent(data="", mime_type="audio/wav"),
            types.ImageContent(data="", mime_type="image/tiff"),
            types.ResourceLink(uri="x:y", name="notes"),
        ]
    )
    assert reply.text.splitlines() == [
        "one",
        "(content of type audio/wav, which cannot be shown)",
        "(content of type image/tiff, which cannot be shown)",
        "notes: x:y",
    ]


def test_embedded_resources_are_text_with_their_uri_or_images():
    text = types.EmbeddedResource(resource=types.TextResourceContents(uri="x:y", text="words"))
    image = types.EmbeddedResource(resource=types.BlobResourceContents(uri="x:z", blob="aGk=", mime_type="image/png"))
    reply = content_reply([text, image])
    assert reply.text == '<resource uri="x:y">\nwords\n</resource>'
    assert [picture.data for picture in reply.images] == ["aGk="]


def test_structured_content_counts_where_there_is_no_other():
    assert call_reply(types.CallToolResult(content=[], structured_content={"a": 1})).text == '{"a": 1}'
    assert call_reply(types.CallToolResult(content=[])).text == ""


def test_turns_that_a_server_wrote_for_the_assistant_are_marked():
    messages = [
        types.PromptMessage(role="user", content=types.TextContent(text="Ask.")),
        types.PromptMessage(role="assistant", content=types.TextContent(text="Sure.")),
    ]
    assert prompt_text(types.GetPromptResult(messages=messages)) == "Ask.\n\n(an answer to continue from)\nSure."


def test_a_tool_may_be_called_again_when_its_server_says_so():
    hints = types.ToolAnnotations(idempotent_hint=True)
    schema: JsonObject = {"type": "object", "properties": {}}
    tool = tool_of(types.Tool(name="a", input_schema=dict(schema), annotations=hints))
    assert (tool.description, tool.read_only, tool.repeatable) == ("", False, True)
    assert tool_of(
        types.Tool(name="a", input_schema=dict(schema), annotations=types.ToolAnnotations(read_only_hint=True))
    ).repeatable
    assert not tool_of(types.Tool(name="a", input_schema=dict(schema))).repeatable
