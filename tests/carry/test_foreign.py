"""Files of other programs come in as proposals: read by their form, once, with the place of what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.carry.arrival import Proposal
from pattern_acp.carry.foreign import MOST_BYTES, Foreign, ForeignFileError, read_foreign
from pattern_acp.carry.proposing import ImportedArchive, Importer, chosen, look_at, opened
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.memory.blocks import Block, BlockKey, Permission, Scope, Tier
from pattern_acp.memory.history import list_writes
from pattern_acp.memory.store import load_block
from pattern_acp.providers.scripted import ScriptedProvider
from tests.carry.test_archive import KEY, NOW, home, is_sound, memory_of, state
from tests.support.agent import running_agent
from tests.support.constellation import FakeClock
from tests.support.process import agent_environment

IMPORTER = Importer("tester", "/project", FakeClock())

LETTA = {
    "agents": [
        {
            "name": "Sam",
            "id": "agent-0",
            "block_ids": ["block-0", "block-1", "block-2"],
            "passages": [{"text": "The parser is recursive descent.", "created_at": "2025-05-01T10:00:00+00:00"}],
            "messages": [
                {"role": "system", "content": "You are Sam."},
                {"role": "user", "content": [{"type": "text", "text": '{"type": "login", "time": "now"}'}]},
                {"role": "user", "content": '{"type": "user_message", "message": "Which port?"}'},
                {
                    "role": "assistant",
                    "content": "I should look.",
                    "tool_calls": [{"function": {"name": "send_message", "arguments": '{"message": "It is 7433."}'}}],
                },
                {"role": "tool", "content": '{"status": "OK"}'},
            ],
        }
    ],
    "blocks": [
        {"id": "block-0", "label": "human", "value": "They drink tea.", "description": "The user.", "limit": 5000},
        {"id": "block-1", "label": "scratchpad", "value": "Look at lexer.py.", "read_only": True},
        {"id": "block-2", "label": "archival", "value": "The grammar is in grammar.ebnf."},
    ],
    "tools": [{"name": "run_code"}],
}

OLD_LETTA = {
    "agent_type": "memgpt_agent",
    "name": "Old",
    "core_memory": [{"label": "persona", "value": "I am Old.", "limit": 2000, "created_at": "2024-11-02T08:00:00"}],
    "messages": [{"role": "user", "text": "Hello?"}, {"role": "assistant", "text": "Hello."}],
}


def node(role: str, text: str, parent: str | None, *children: str, at: float = 1_700_000_000.5) -> dict[str, object]:
    message = {"author": {"role": role}, "content": {"content_type": "text", "parts": [text]}, "create_time": at}
    return {"message": message, "parent": parent, "children": list(children)}


def chat(*, went_on: bool = False) -> list[dict[str, object]]:
    mapping = {
        "root": {"message": None, "parent": None, "children": ["sys"]},
        "sys": node("system", "", "root", "a"),
        "a": node("user", "How do I parse arithmetic?", "sys", "b", "other"),
        "b": node("assistant", "With precedence climbing.", "a", *(["c"] if went_on else [])),
        "other": node("assistant", "With a table.", "a"),
    }
    if went_on:
        mapping["c"] = node("user", "And unary minus?", "b", at=1_700_000_100)
    return [
        {
            "title": "Parsing",
            "conversation_id": "conversation-1",
            "create_time": 1_700_000_000,
            "mapping": mapping,
            "current_node": "c" if went_on else "b",
        }
    ]


def written(folder: Path, name: str, content: object) -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


async def offered(database: Database, file: Path, importer: Importer = IMPORTER) -> tuple[Proposal, ...]:
    async with opened(file, importer) as (archive, _):
        return (await look_at(database, archive, str(file))).found


async def imported(database: Database, file: Path, importer: Importer = IMPORTER) -> ImportedArchive:
    async with opened(file, importer) as (archive, left_out):
        found = await look_at(database, archive, str(file), left_out=left_out)
        return await found.take(chosen("all", found.found, "both"), now_ms=NOW)


async def test_a_letta_agent_becomes_blocks_facts_and_a_session_that_search_finds(tmp_path: Path):
    file = written(tmp_path, "sam.af", LETTA)
    async with home(tmp_path / "one") as one:
        done = await imported(one, file)
        assert (done.blocks, done.facts, done.sessions) == (2, 2, 1)
        assert any("Tools" in note for note in done.notes)
        assert await is_sound(one) == []

        def read(tx: Transaction, label: str) -> Block:
            return load_block(tx, BlockKey(Scope.PERSONA, "tester", label))

        human = await one.read(lambda tx: read(tx, "human"))
        assert (human.text, human.description, human.tier) == ("They drink tea.", "The user.", Tier.CORE)
        scratchpad = await one.read(lambda tx: read(tx, "scratchpad"))
        assert (scratchpad.permission, scratchpad.tier) == (Permission.READ_ONLY, Tier.WORKING)
        (write,) = await one.read(lambda tx: list_writes(tx, human))
        assert (write.reason, write.actor.value) == ("It was imported from Letta.", "import")
        assert write.store
        hits = await memory_of(one).search("recursive descent", 3)
        assert "recursive descent" in hits[0].text
        said = [hit.text for hit in await memory_of(one).search("which port", 5)]
        assert any("7433" in text or "Which port?" in text for text in said)


async def test_the_older_form_of_letta_is_read_too(tmp_path: Path):
    found = read_foreign(written(tmp_path, "old.af", OLD_LETTA))
    assert [(one.label, one.text, one.is_core) for one in found.blocks] == [("persona", "I am Old.", True)]
    assert [one.text for one in next(iter(found.sessions)).messages] == ["Hello?", "Hello."]


async def test_agents_of_one_file_are_personas_of_their_own_and_a_shared_block_is_the_firsts(tmp_path: Path):
    agents = [{"name": name, "block_ids": ["b"], "core_memory": []} for name in ("Ada", "Ben")]
    own = {"id": "c", "label": "notes", "value": "Ben's."}
    agents[1]["block_ids"] = ["b", "c"]
    file = written(
        tmp_path, "both.af", {"agents": agents, "blocks": [{"id": "b", "label": "human", "value": "Tea."}, own]}
    )
    async with home(tmp_path / "one") as one:
        assert [(each.name, each.whose) for each in await offered(one, file)] in (
            [("human", "persona Ada"), ("notes", "persona Ben")],
            [("notes", "persona Ben"), ("human", "persona Ada")],
        )


@pytest.mark.parametrize("content", [LETTA, OLD_LETTA, chat(), [{"role": "user", "content": "Hello?"}]])
async def test_importing_a_file_twice_is_importing_it_once_also_a_copy(tmp_path: Path, content: object):
    file, copy = written(tmp_path, "a.json", content), written(tmp_path, "b.json", content)
    async with home(tmp_path / "one") as one:
        await imported(one, file)
        before = await one.read(state)
        assert {each.state for each in await offered(one, copy)} == {"known"}
        assert (await imported(one, copy)).events == 0
        assert await one.read(state) == before


async def test_a_conversation_is_the_branch_that_was_shown_and_goes_on_where_it_went_on(tmp_path: Path):
    file = written(tmp_path, "conversations.json", chat())
    async with home(tmp_path / "one") as one:
        await imported(one, file)
        (found,) = await offered(one, written(tmp_path, "conversations.json", chat(went_on=True)))
        assert (found.name, found.state) == ("Parsing", "changed")
        await imported(one, file)
        assert await is_sound(one) == []
        texts = [hit.text for hit in await memory_of(one).search("precedence climbing unary minus", 9)]
        assert any("precedence climbing" in text for text in texts)
        assert any("unary minus" in text for text in texts)
        assert not any("With a table" in text for text in texts)


async def test_an_imported_conversation_is_listed_in_its_folder(tmp_path: Path):
    file = written(tmp_path, "conversations.json", chat())
    database = tmp_path / "one" / "constellation.db"
    async with running_agent(ScriptedProvider([]), database=database) as agent:
        await imported(agent.database, file, Importer("default", str(agent.folder), FakeClock()))
        listed = await agent.editor.request("session/list", {"cwd": str(agent.folder)})
        (session,) = listed["sessions"]
        assert session["title"] == "Parsing"


def test_conversations_of_claude_and_plain_messages_are_read(tmp_path: Path):
    claude = {
        "uuid": "u",
        "name": "Tea",
        "created_at": "2025-01-01T00:00:00Z",
        "chat_messages": [
            {"sender": "human", "text": "Which tea?", "created_at": "2025-01-01T00:00:01Z"},
            {"sender": "assistant", "text": "Green."},
        ],
    }
    plain = {"id": "p", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image"}]}]}
    found = read_foreign(written(tmp_path, "all.json", [claude, plain, *chat()]))
    assert [(one.title, [each.text for each in one.messages]) for one in found.sessions] == [
        ("Tea", ["Which tea?", "Green."]),
        ("Hi", ["Hi"]),
        ("Parsing", ["How do I parse arithmetic?", "With precedence climbing."]),
    ]
    assert next(iter(found.sessions)).messages[0].at_ms == 1_735_689_601_000


@pytest.mark.parametrize(
    ("name", "program", "place", "label"),
    [
        ("shop/CLAUDE.md", "Claude Code", "project", "claude-md"),
        ("shop/AGENTS.md", "Codex", "project", "agents-md"),
        (".claude/CLAUDE.md", "Claude Code", "persona", "claude-md"),
        (".codex/AGENTS.md", "Codex", "persona", "agents-md"),
        ("memory/MEMORY.md", "Claude Code", "project", "memory-md"),
    ],
)
def test_memory_files_belong_to_the_project_or_to_the_user(
    tmp_path: Path, name: str, program: str, place: str, label: str
):
    found = read_foreign(written(tmp_path, name, "# Build\n\nUse make.\n"))
    (block,) = found.blocks
    assert (found.program, block.place, block.label, block.text) == (program, place, label, "# Build\n\nUse make.")


async def test_a_long_memory_file_is_cut_at_its_headings_and_a_changed_one_differs(tmp_path: Path):
    parts = [f"# Part {number}\n\n" + "Words of it. " * 1_000 for number in range(6)]
    file = written(tmp_path, "CLAUDE.md", "\n\n".join(parts))
    async with home(tmp_path / "one") as one:
        done = await imported(one, file)
        assert done.blocks == 3
        keys = [BlockKey(Scope.PROJECT, "/project", label) for label in ("claude-md", "claude-md-2", "claude-md-3")]
        texts = [(await one.read(lambda tx, key=key: load_block(tx, key))).text for key in keys]
        assert all(text.startswith("# Part") for text in texts)
        assert "\n\n".join(texts).split() == "\n\n".join(parts).split()
        written(tmp_path, "CLAUDE.md", "Use ninja.")
        assert [(each.name, each.state) for each in await offered(one, file)] == [("claude-md", "conflict")]


async def test_what_seems_to_hold_a_secret_stays_out(tmp_path: Path):
    file = written(tmp_path, "CLAUDE.md", f"The key is {KEY}.")
    async with home(tmp_path / "one") as one:
        done = await imported(one, file)
        assert done.blocks == 0
        assert any("seems to hold a secret" in note for note in done.notes)


_WRONG: list[tuple[object, str]] = [
    ({"agents": [{"name": "A", "core_memory": [{"value": "x"}]}]}, r"agents\.0\.core_memory\.0\.label: Field req"),
    ([*chat(), {"mapping": {"a": {"message": 3}}}], r"1\.mapping\.a\.message: "),
    ([{"messages": [], "created_at": "yesterday"}], r"created_at: "),
    ([{"title": "x"}], "no conversations and no agents"),
    ("{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
]


@pytest.mark.parametrize(("content", "sentence"), _WRONG)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, content: object, sentence: str):
    with pytest.raises(ForeignFileError, match=sentence):
        read_foreign(written(tmp_path, "a.json", content))


def test_a_file_that_is_no_text_is_refused_and_an_empty_one_has_nothing(tmp_path: Path):
    file = tmp_path / "CLAUDE.md"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ForeignFileError, match="not text in UTF-8"):
        read_foreign(file)
    assert read_foreign(written(tmp_path, "CLAUDE.md", " \n")) == Foreign("Claude Code")


@pytest.mark.parametrize("beginning", [b'{"agents": []', b'[{"role": "user", "content": "Hello."}, '])
def test_a_file_that_is_too_large_to_be_read_as_a_whole_is_refused(tmp_path: Path, beginning: bytes):
    file = tmp_path / "large.json"
    with file.open("wb") as into:
        into.write(beginning)
        into.truncate(MOST_BYTES + 1)
    with pytest.raises(ForeignFileError, match=r"20,000,001 bytes, .* may have 20,000,000; split it"):
        read_foreign(file)


def test_a_list_of_conversations_is_read_one_by_one_and_again(tmp_path: Path):
    file = tmp_path / "conversations.json"
    # Longer than a piece of the file, and with what JSON may have between its items.
    said = ["ä" * 700_000, "one \\", "]", "two"]
    talks = [
        {"title": text[:5], "id": str(number), "messages": [{"role": "user", "content": text}]}
        for number, text in enumerate(said)
    ]
    items = " ,\n ".join(json.dumps(talk, ensure_ascii=False) for talk in talks)
    file.write_text(f"\ufeff \n[ {items} \n] ", encoding="utf-8")
    found = read_foreign(file)
    for _ in range(2):
        assert [message.text for session in found.sessions for message in session.messages] == said


def test_the_words_of_claude_are_found_in_their_parts_too(tmp_path: Path):
    file = tmp_path / "conversations.json"
    parts = [{"type": "text", "text": "A small marsupial."}]
    messages = [{"sender": "human", "text": "What is it?"}, {"sender": "assistant", "text": "", "content": parts}]
    file.write_text(json.dumps([{"uuid": "u", "name": "Quokka", "chat_messages": messages}]), encoding="utf-8")
    (session,) = read_foreign(file).sessions
    assert [one.text for one in session.messages] == ["What is it?", "A small marsupial."]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('[{"messages": []}', "its list does not end"),
        ('[{"messages": []} {"messages": []}]', "a comma is missing behind entry 0"),
        ('[{"messages": []}, {"messages": [}]', "in entry 1"),
        ('[{"messages": []}, 7]', "entry 1"),
    ],
)
def test_the_entry_of_a_list_that_cannot_be_read_is_named(tmp_path: Path, content: str, sentence: str):
    file = tmp_path / "conversations.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ForeignFileError, match=sentence):
        read_foreign(file)


RESIDENT = """
import sys
from pathlib import Path
from pattern_acp.cli.main import run

assert run(["import", sys.argv[1], "--accept", "all"]) == 0
status = Path("/proc/self/status").read_text()
print(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the largest resident size of a process alone is in /proc")
def test_the_memory_of_an_import_does_not_grow_with_its_file(tmp_path: Path):
    resident: list[int] = []
    for number, count in enumerate((1_000, 10_000)):
        messages = [{"role": "user", "content": f"Prompt {at} of this conversation. " * 8} for at in range(20)]
        talks = [{"id": str(at), "title": f"Talk {at}", "messages": messages} for at in range(count // 20)]
        file = written(tmp_path, f"{number}.json", talks)
        command = [sys.executable, "-c", RESIDENT, str(file)]
        environment = agent_environment(tmp_path / str(number))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert f"{count // 20} sessions" in done.stdout
        resident.append(int(done.stdout.split()[-1]))
    # What grows are four caches of 8 MB; with all origins and mapped files, it was 52 MB.
    assert resident[1] - resident[0] < 36_000
