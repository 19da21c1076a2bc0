"""What the person gives with a prompt: images, files, links, mentions and long pastes."""

import base64
import io
from typing import cast

import pytest
from msgspec.structs import replace
from PIL import Image

from pattern_acp.domain.messages import ImagePart, Message, Part, ResourcePart
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, gate, says
from tests.support.turns import last_result, of_type, prompting


def picture(size: tuple[int, int] = (8, 6), image_format: str = "PNG") -> str:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, image_format)
    return base64.b64encode(file.getvalue()).decode()


def noise(edge: int) -> str:
    file = io.BytesIO()
    Image.merge("RGB", [Image.effect_noise((edge, edge), 100) for _ in range(3)]).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def text(words: str) -> JsonDict:
    return {"type": "text", "text": words}


async def give(agent: RunningAgent, session: str, *blocks: JsonDict) -> Message:
    """Prompt with these blocks; the person's message as the model was sent it."""
    await agent.editor.request("session/prompt", {"sessionId": session, "prompt": list(blocks)})
    return next(m for m in reversed(agent.model.requests[-1].messages) if m.role == "user" and m.parts)


def resources(message: Message) -> list[ResourcePart]:
    return of_type(message.parts, ResourcePart)


async def test_an_image_is_sent_with_its_size_and_replayed_as_an_image():
    model = ScriptedProvider([says("Red."), says("Still red.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        image: JsonDict = {"type": "image", "data": picture(), "mimeType": "image/jpeg", "uri": "file:///a/red.png"}
        sent = await give(agent, session, text("What colour?"), image)
        assert sent.parts[1] == ImagePart("image/png", picture(), "red.png", 8, 6)
        await give(agent, session, text("Sure?"), {"type": "image", "data": noise(800), "mimeType": "image/png"})
        agent.editor.updates.clear()
        await agent.editor.request("session/close", {"sessionId": session})
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        blocks = [cast("JsonDict", update["content"]) for update in agent.editor.of_kind("user_message_chunk")]
        kinds = [(block["type"], block.get("mimeType")) for block in blocks]
        assert kinds == [("text", None), ("image", "image/png"), ("text", None), ("image", "image/jpeg")]
        assert len(blocks[3]["data"]) < 600_000, "a picture too large for a line is shown by a small one"


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "image", "data": picture()[:60], "mimeType": "image/png"}, "The image is damaged"),
        ({"type": "image", "data": "aGk=", "mimeType": "image/png"}, "is not a PNG, JPEG, GIF or WebP image"),
        ({"type": "image", "data": "%", "mimeType": "image/png"}, "not valid base64"),
        ({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, "Audio is not supported"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "%"}}, "no valid base64"),
    ],
)
async def test_what_cannot_be_used_is_refused_and_the_session_goes_on(block: JsonDict, said: str):
    async with running_agent(ScriptedProvider([says("Yes.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        with pytest.raises(RemoteError, match=said) as refused:
            await give(agent, session, text("Look."), block)
        assert refused.value.code == -32602
        assert (await agent.editor.prompt(session, "Still there?"))["stopReason"] == "end_turn"


async def test_a_model_that_takes_no_images_is_told_and_so_is_the_person():
    async with running_agent(ScriptedProvider([says("Hello."), says("I see nothing.")])) as agent:
        agent.models.infos["scripted"] = replace(agent.models.infos["scripted"], sees_images=False)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        await give(agent, session, text("Look."), {"type": "image", "data": picture(), "mimeType": "image/png"})
        assert "takes no images, so it is not shown the image, 8x6." in agent.editor.said()


async def test_a_linked_file_is_read_through_the_editor_and_replayed_as_the_link():
    async with running_agent(ScriptedProvider([says("Read.")]), capabilities=FULL_CLIENT) as agent:
        path = agent.folder / "a.py"
        path.write_text("saved\n", encoding="utf-8")
        agent.editor.files[str(path)] = "one\ntwo\nthree\nunsaved\n"
        session = await agent.editor.open_session(str(agent.folder))
        link: JsonDict = {"type": "resource_link", "uri": path.as_uri(), "name": "a.py"}
        some: JsonDict = {"type": "resource_link", "uri": f"{path.as_uri()}#L2:3", "name": "a.py (2:3)"}
        web: JsonDict = {"type": "resource_link", "uri": "https://example.com/x", "name": "x"}
        whole, part, named = resources(await give(agent, session, text("Look."), link, some, web))
        assert (whole.text, whole.lines) == ("one\ntwo\nthree\nunsaved\n", "")
        assert (part.text, part.lines, part.note) == ("two\nthree\n", "2-3", "lines 2-3 of 4")
        assert (named.text, named.note) == (None, "")
        agent.editor.updates.clear()
        await agent.editor.request("session/close", {"sessionId": session})
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        kinds = [update["content"]["type"] for update in agent.editor.of_kind("user_message_chunk")]
        assert kinds == ["text", "resource_link", "resource_link", "resource_link"]


async def test_a_mention_of_a_file_that_is_not_there_is_told_and_the_prompt_goes_on():
    model = ScriptedProvider([says("I see.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Look at @src/gone.py and ask @somebody.")
        assert "There is no file @src/gone.py; the prompt continues as it was written." in agent.editor.said()
        assert "I see." in agent.editor.said()


async def test_a_mentioned_file_comes_as_data_beside_the_words_and_only_when_it_exists():
    async with running_agent(ScriptedProvider([says("Read.")])) as agent:
        (agent.folder / "src").mkdir()
        (agent.folder / "src" / "x.py").write_text("a\nb\nc\n", encoding="utf-8")
        (agent.folder / "my file.txt").write_text("hello", encoding="utf-8")
        (agent.folder / "red.png").write_bytes(base64.b64decode(picture()))
        session = await agent.editor.open_session(str(agent.folder))
        words = 'Ask me@example.com about @dataclass, @src/x.py:2-9, @src/, @"my file.txt", @src/x.py and @red.png.'
        sent = await give(agent, session, text(words))
        assert sent.text == words
        found = [(part.name, part.text, part.lines) for part in resources(sent)]
        assert found == [
            ("src/x.py", "b\nc\n", "2-3"),
            ("src", "x.py", ""),
            ("my file.txt", "hello", ""),
            ("src/x.py", "a\nb\nc\n", ""),
        ]
        assert [image.about for image in of_type(sent.parts, ImagePart)] == ["image red.png, 8x6"]
        assert all(part.given == "mention" for part in resources(sent))


async def test_what_policy_would_ask_about_is_not_read_and_both_sides_are_told():
    async with running_agent(ScriptedProvider([says("Fine.")])) as agent:
        (agent.folder / "work").mkdir()
        (agent.folder / "work" / ".env").write_text("KEY=1", encoding="utf-8")
        (agent.folder / "other.txt").write_text("outside", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder / "work"))
        outside: JsonDict = {"type": "resource_link", "uri": (agent.folder / "other.txt").as_uri(), "name": "other.txt"}
        gone: JsonDict = {"type": "resource_link", "uri": (agent.folder / "work" / "no.py").as_uri(), "name": "no.py"}
        sent = resources(await give(agent, session, text("Use @.env here."), outside, gone))
        assert [part.text for part in sent] == [None, None, None]
        assert "outside the folders" in sent[0].note
        assert "could not be read" in sent[1].note
        assert "looks like credentials" in sent[2].note
        assert ".env was not given to the model: .env looks like credentials. To read it," in agent.editor.said()


async def test_a_large_file_is_brought_along_up_to_a_limit_and_a_binary_one_named():
    async with running_agent(ScriptedProvider([says("Long.")])) as agent:
        (agent.folder / "long.txt").write_text("0123456789\n" * 10_000, encoding="utf-8")
        (agent.folder / "wide.txt").write_text("x" * 70_000, encoding="utf-8")
        (agent.folder / "a.bin").write_bytes(b"\0\1\2")
        session = await agent.editor.open_session(str(agent.folder))
        long, wide, binary = resources(await give(agent, session, text("@long.txt @wide.txt @a.bin")))
        assert long.lines == "1-4545"
        assert long.note == "lines 1-4545 of 10,000; read_file with start_line=4546 reads on"
        assert wide.note == "only the first 50,000 characters of line 1"
        assert binary.note == "its content is not shown: 3 bytes of application/octet-stream"


async def test_an_embedded_selection_keeps_its_lines_and_embedded_bytes_become_what_they_are():
    async with running_agent(ScriptedProvider([says("Seen.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        held: list[JsonDict] = [
            {"uri": "file:///a/b.py#L10:20", "text": "code"},
            {"uri": "file:///a/c.txt", "blob": base64.b64encode("grün".encode()).decode()},
            {"uri": "file:///a/d.png", "blob": picture(), "mimeType": "image/png"},
            {"uri": "file:///a/e.bin", "blob": "AAEC", "mimeType": "application/zip"},
        ]
        blocks: list[JsonDict] = [{"type": "resource", "resource": one} for one in held]
        sent = await give(agent, session, text("Look."), *blocks)
        parts: tuple[Part, ...] = sent.parts[1:]
        assert parts[2] == ImagePart("image/png", picture(), "d.png", 8, 6)
        found = [(part.name, part.text, part.lines, part.note) for part in resources(sent)]
        assert found == [
            ("b.py", "code", "10-20", ""),
            ("c.txt", "grün", "", ""),
            ("e.bin", None, "", "3 bytes of application/zip, which cannot be shown"),
        ]


async def test_a_large_paste_is_kept_whole_and_the_model_can_read_what_it_was_not_sent():
    turns = [says("Long.")]
    model = ScriptedProvider(turns)
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        paste = "First line of the log\n" + "".join(f"{number}\n" for number in range(30_000))
        sent = await give(agent, session, text(paste))
        assert len(sent.text) < 50_000
        text_id = f"{sent.message_id}.0"
        assert text_id in sent.text
        turns += [calls("read_attachment", id=text_id, start=30_000), says("Read.")]
        await agent.editor.prompt(session, "Read the middle.")
        assert last_result(model.requests[-1]).text.startswith(paste[30_000:30_100])
        titles = [update["title"] for update in agent.editor.of_kind("session_info_update")]
        assert titles == ["First line of the log (+30,000 lines)"]


@pytest.mark.first_version("a prompt that comes during a turn joins it")
async def test_a_prompt_that_is_refused_does_not_let_the_next_one_overtake_a_running_turn():
    waits = gate()
    model = ScriptedProvider([(*says("One."), waits), says("Two.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "First.") as first:
            await waits.reached.wait()
            with pytest.raises(RemoteError, match="damaged"):
                await give(agent, session, {"type": "image", "data": picture()[:60], "mimeType": "image/png"})
            await agent.editor.prompt(session, "Next.")
            assert await first.stop_reason() == "cancelled"
        assert agent.editor.said() == "One.Two."


async def test_a_file_that_comes_with_every_prompt_is_given_again_only_when_it_changed():
    async with running_agent(ScriptedProvider([says("Read."), says("Again."), says("New.")])) as agent:
        path = agent.folder / "work" / "a#1.py"
        path.parent.mkdir()
        path.write_text("one\n", encoding="utf-8")
        session = await agent.editor.open_session(str(path.parent))
        # Some clients send a bare path instead of a URI.
        active: JsonDict = {"type": "resource_link", "uri": str(path), "name": "a.py"}
        secret: JsonDict = {"type": "resource_link", "uri": str(agent.folder / "b.py"), "name": "b.py"}
        first, _ = resources(await give(agent, session, text("Look."), active, secret))
        second, _ = resources(await give(agent, session, text("Look."), active, secret))
        path.write_text("two\n", encoding="utf-8")
        third, _ = resources(await give(agent, session, text("Look."), active, secret))
        assert [part.text for part in (first, second, third)] == ["one\n", None, "two\n"]
        assert "unchanged" in second.note
        assert agent.editor.said().count("was not given to the model") == 1


async def test_an_image_is_kept_in_a_blob_of_the_journal():
    async with running_agent(ScriptedProvider([says("Seen.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await give(agent, session, text("Look."), {"type": "image", "data": noise(100), "mimeType": "image/png"})
        sql = (
            "SELECT payload IS NULL AND blob IS NOT NULL FROM events WHERE kind = 'turn_started' AND stream = :session"
        )
        assert await agent.database.read(lambda tx: [tuple(row) for row in tx.all(sql, {"session": session})]) == [(1,)]
