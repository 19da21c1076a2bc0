"""/memory with its verbs, through a whole agent."""

from pathlib import Path

import pytest

from pattern_acp.commands.memory import VERBS
from pattern_acp.commands.memory_results import short_id
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.memory.block_loader import load_history
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.store import load_block
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, says


async def ask(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def opened(agent: RunningAgent) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    for text in ("likes tea", "works at night", "speaks Dutch"):
        await ask(agent, session, f"/remember me: {text}")
    return session


async def test_the_list_tells_size_limit_last_change_and_what_is_deleted():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory")
        assert "| `human` | persona | 37 of 8,000 |" in said
        assert "by you" in said
        assert "likes tea works at night speaks Dutch" in said
        await ask(agent, session, "/memory delete human")
        assert "/memory restore LABEL" in await ask(agent, session, "/memory list")


async def test_history_tells_every_write_with_who_what_and_where():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory history human")
        rows = said.splitlines()
        assert rows[0].startswith("| # | When | Who | What | Lines | Size | Why | Where |")
        assert [row.split(" | ")[0].strip("| ") for row in rows[2:]] == ["4", "3", "2", "1"]
        assert "| you | append | +1 -0 |" in rows[2]
        assert session not in said
        assert f", {short_id(session)} |" in rows[2]
        await ask(agent, session, "Who am I?")
        rows = (await ask(agent, session, "/memory history human")).splitlines()
        assert f", “Who am I?” {short_id(session)} |" in rows[2]
        assert session not in await ask(agent, session, "/memory blame human")


async def test_an_older_version_is_shown_and_compared():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory show human 2")
        assert "likes tea" in said
        assert "works at night" not in said
        assert "Version 2 of 4" in said
        said = await ask(agent, session, "/memory diff human 2")
        assert "```diff\n--- human 2\n+++ human 4\n" in said
        assert "\n+works at night\n+speaks Dutch\n```" in said
        assert "+speaks Dutch" in await ask(agent, session, "/memory diff human")


async def test_blame_names_the_write_of_each_line_and_of_characters():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory blame human")
        assert said.splitlines()[3].startswith("| 2 | 3 |")
        assert said.splitlines()[3].endswith("| works at night |")
        spans = await ask(agent, session, "/memory blame human 6-15")
        assert "| 6-9 | 2 |" in spans
        assert "| 9-15 | 3 |" in spans


async def test_an_undo_is_the_persons_and_seen_by_the_next_prompt():
    model = ScriptedProvider([says("ok")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await ask(agent, session, "/memory undo human")
        await ask(agent, session, "Hi")
        assert "speaks Dutch" not in str(model.requests[-1])
        assert "works at night" in str(model.requests[-1])

        def newest(tx: Transaction) -> object:
            return tx.one("SELECT actor, origin, operation FROM block_updates ORDER BY last_seq DESC LIMIT 1")

        assert await agent.database.read(newest) == ("human", "person", "undo")


async def test_a_block_is_deleted_and_restored():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/remember project: build with ninja")
        assert "/memory restore project" in await ask(agent, session, "/memory delete project Not needed.")
        assert "ninja" not in await ask(agent, session, "/memory project")
        # The default block that was made anew gives way.
        assert "back" in await ask(agent, session, "/memory restore project")
        assert "ninja" in await ask(agent, session, "/memory project")
        assert "Deleted" not in await ask(agent, session, "/memory")


async def test_a_block_that_was_written_to_meanwhile_does_not_give_way():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await ask(agent, session, "/memory delete human")
        await ask(agent, session, "/remember me: something new")
        assert "already" in await ask(agent, session, "/memory restore human")


async def test_edit_without_text_tells_how_and_with_text_changes_it():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory edit human")
        assert "pattern-acp memory edit human" in said
        said = await ask(agent, session, "/memory edit human\nlikes coffee\nworks at night")
        assert "\n-likes tea\n" in said
        assert "\n+likes coffee\n" in said


async def test_forgetting_leaves_nothing_of_the_words_anywhere():
    model = ScriptedProvider([says("I see."), says("Yes.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        secret = "wintergarden 90317 code"
        await ask(agent, session, f"Mind that the {secret} is mine")
        await ask(agent, session, f"/remember me: the {secret}")
        said = await ask(agent, session, f"/memory forget human the {secret}")
        assert "forgotten" in said
        assert "wintergarden" not in said
        assert "-[forgotten]" in said
        assert "wintergarden" not in await ask(agent, session, "/memory human")
        await ask(agent, session, "What did I say?")
        assert "wintergarden" not in str(model.requests[-1])
        await agent.database.close()
        assert b"wintergarden" not in raw(agent.database.path)


async def test_what_only_the_command_says_is_refused_and_costs_no_history():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory forget human nothing like this is there")
        assert "neither in it nor recorded anywhere but in this command" in said
        assert agent.editor.asked == []
        assert "likes tea" in await ask(agent, session, "/memory show human 2")


@pytest.mark.parametrize(
    "typed", ['"vault code word is zebrafish"', "vault  code word IS zebrafish", "“code word is zebrafish”"]
)
async def test_a_passage_typed_otherwise_than_it_stands_is_gone_and_the_answer_is_true(typed: str):
    async with running_agent(ScriptedProvider([says("Yes: VAULT CODE WORD IS ZEBRAFISH.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/remember project: The vault code word is zebrafish")
        await ask(agent, session, "Which code word?")
        said = await ask(agent, session, f"/memory forget project {typed}")
        assert "taken out of the text of `project`, 2 stored versions of its history and" in said
        assert "[forgotten]\n+The" in said, "what is gone stands before what is left"
        assert "they are nowhere in it" in said
        for shown in ("/memory show project", "/recall code word", "/memory history project"):
            assert "zebrafish" not in (await ask(agent, session, shown)).lower()
        await agent.database.close()
        assert b"zebrafish" not in raw(agent.database.path).lower()


async def test_forgetting_asks_first_and_without_a_yes_nothing_is_lost():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        agent.editor.permission = choose("reject_once")
        for what in ("likes tea", "--all"):
            said = await ask(agent, session, f"/memory forget human {what}")
            assert said.strip() == "Nothing was forgotten; `human` is as it was."
        first, second = agent.editor.asked
        assert str(first["toolCall"]).count("4 stored versions of its history") == 1
        assert "likes tea" not in str(first)
        assert "whole block `human` would be gone" in str(second["toolCall"])
        assert "likes tea" in await ask(agent, session, "/memory show human 2")
        said = await ask(agent, session, "/memory forget human --yes likes tea")
        assert "The passage is forgotten" in said
        assert len(agent.editor.asked) == 2


async def test_where_the_words_are_left_is_said():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await ask(agent, session, "/remember project: She LIKES tea a lot")
        await ask(agent, session, "/memory edit project She drinks")
        await ask(agent, session, "/memory set persona description Whoever likes tea")
        said = await ask(agent, session, "/memory forget human likes tea")
        assert "in other blocks too, which were left alone: `project (in an older version)`" in said
        assert "They are still in: 1 description of a memory block" in said


def raw(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.name.startswith(path.name))


async def test_a_whole_block_is_only_forgotten_when_that_is_said():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, "/memory forget human")
        assert "--all" in said
        assert "likes tea" in await ask(agent, session, "/memory human")
        assert "whole block" in await ask(agent, session, "/memory forget human --all")
        assert "likes tea" not in await ask(agent, session, "/memory human")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("/memory show", "Say which block: /memory show LABEL"),
        ("/memory show nowhere", "no memory block named 'nowhere'"),
        ("/memory show human 99", "versions are 1 to 4"),
        ("/memory show human two", "Give the number of a version"),
        ("/memory diff human 1 2 3", "takes LABEL [OLD [NEW]] [--words], not '3' too"),
        ("/memory blame human 9-3", "START-END"),
        ("/memory blame human 900-903", "no such characters"),
        ("/memory sow human", "no verb 'sow'; /memory help"),
        ("/memory undo human x", "Give the number of a write"),
        ("/memory undo human 1", "delete the block instead"),
        ("/memory redo human", "nothing to redo"),
        ("/memory rollback human", "Say which version: /memory rollback LABEL VERSION"),
        ("/memory rollback human 4", "reads like that already"),
        ("/memory restore human", "was deleted that could be restored"),
        ("/memory forget human ab", "at least 4 characters"),
    ],
)
async def test_what_cannot_be_done_is_told_in_one_sentence(text: str, sentence: str):
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        said = await ask(agent, session, text)
        assert sentence in said
        assert "\n" not in said.strip()


async def test_help_lists_every_verb():
    async with running_agent(ScriptedProvider([])) as agent:
        said = await ask(agent, await agent.editor.open_session(str(agent.folder)), "/memory help")
        assert all(f"/memory {verb.name}" in said for verb in VERBS.values() if verb.only != "terminal")


async def test_the_archive_is_listed_with_what_superseded_what_and_how_often_it_was_recalled():
    def write(operation: str, text: str, old: str = "") -> Turn:
        return calls("memory_write", label="archive", operation=operation, text=text, old_text=old)

    model = ScriptedProvider(
        [
            write("append", "The zeppelin stands in Delft."),
            write("replace", "The zeppelin stands in Gouda.", "The zeppelin stands in Delft."),
            says("Noted."),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "Nothing is archived" in await ask(agent, session, "/memory archive")
        await ask(agent, session, "Note where the zeppelin stands.")
        await ask(agent, session, "/recall zeppelin Gouda")
        newer, older = (await ask(agent, session, "/memory archive")).splitlines()[2:]
        assert "| in force | 1 | The zeppelin stands in Gouda. |" in newer
        assert "| superseded by entry_" in older
        assert older.endswith("| 0 | The zeppelin stands in Delft. |")


async def test_verify_finds_what_does_not_agree():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        assert "| `human` | 4 | sound |" in await ask(agent, session, "/memory verify")

        def damage(tx: Transaction) -> int:
            (row,) = tx.all("SELECT id FROM blocks WHERE label = 'human'")
            human = {"id": row[0]}
            tx.execute("UPDATE block_archives SET snapshot = x'00' WHERE block_id = :id", human)
            return tx.execute("UPDATE block_updates SET data = x'00' WHERE block_id = :id AND number = 3", human)

        await agent.database.write(damage)
        said = await ask(agent, session, "/memory verify")
        assert "its updates cannot be read" in said
        assert "its archive cannot be read" in said
        assert "| `persona` | 1 | sound |" in said


def lose_updates(tx: Transaction) -> None:
    of_human = "(SELECT id FROM blocks WHERE label = 'human')"
    tx.execute(f"UPDATE block_updates SET data = x'00' WHERE block_id = {of_human}")  # noqa: S608  no value in it


def lose_history(tx: Transaction) -> None:
    lose_updates(tx)
    of_human = "(SELECT id FROM blocks WHERE label = 'human')"
    tx.execute(f"UPDATE block_archives SET snapshot = x'00' WHERE block_id = {of_human}")  # noqa: S608  the same


async def test_a_lost_history_is_named_by_the_list_and_the_text_can_be_edited():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await agent.database.write(lose_history)
        said = await ask(agent, session, "/memory")
        assert "The history of the memory block 'human' is damaged" in said
        assert "`pattern-acp doctor --verify --repair`" in said
        for asked in ("/memory undo human", "/memory show human 2", "/memory diff human"):
            said = await ask(agent, session, asked)
            assert "older versions and undo are not available; its text is sound." in said
            assert "restore the constellation" not in said
        assert "+likes coffee" in await ask(agent, session, "/memory edit human likes coffee")
        assert "likes coffee" in await ask(agent, session, "/memory show human")


def lose_document(tx: Transaction) -> None:
    lose_history(tx)
    tx.execute("UPDATE blocks SET base = x'00' WHERE label = 'human'")


async def test_a_block_of_which_only_the_text_is_left_is_shown_and_named_but_not_edited():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await ask(agent, session, "/remember me: likes tea")
        await agent.database.write(lose_document)
        said = await ask(agent, session, "/memory")
        assert "The history of the memory block 'human' is damaged" in said
        assert "its text is sound, but cannot be edited until `pattern-acp doctor --verify --repair`" in said
        assert "likes tea" in await ask(agent, session, "/memory show human")
        for asked in ("/memory edit human likes coffee", "/remember me: likes coffee"):
            assert "cannot be edited until" in await ask(agent, session, asked)
        assert "likes coffee" not in await ask(agent, session, "/memory show human")


async def test_lost_updates_cost_no_version_and_no_undo_while_the_archive_has_them():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        for number in range(6):
            await ask(agent, session, f"/remember me: fact {number}")
        await agent.database.write(
            lambda tx: tx.execute(
                "UPDATE block_archives SET (snapshot, upto, last_seq) = (:snapshot, 10, :seq) WHERE block_id = :id",
                archive_of_human(tx),
            )
        )
        assert "| `human` | 10 | sound |" in await ask(agent, session, "/memory verify")
        await agent.database.write(lose_updates)
        assert "fact 1" in await ask(agent, session, "/memory show human 7")
        assert "\n-likes tea\n" in await ask(agent, session, "/memory undo human 2")


def archive_of_human(tx: Transaction) -> dict[str, SqlValue]:
    """An archive of all ten writes, as a later write would make it."""
    block = load_block(tx, BlockKey(Scope.PERSONA, "default", "human"))
    (last,) = tx.one("SELECT last_seq FROM blocks WHERE id = :id", {"id": block.id}) or (0,)
    return {"snapshot": load_history(tx, block).full_snapshot(), "seq": last, "id": block.id}


async def test_a_block_with_typed_fields_is_shown_and_taken_as_toml():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/memory create decisions --template decision-record")
        said = await ask(agent, session, "/memory edit decisions")
        assert "```toml\n# Each item begins" in said
        assert "#   decision (text, required): What was decided" in said
        said = await ask(agent, session, '/memory edit decisions [[items]]\ndecision = "Use ninja"\nwhy = "Fast"')
        assert "+- decision: Use ninja" in said
        said = await ask(agent, session, '/memory edit decisions [[items]]\ndecision = "Use ninja"\nwhy = 3')
        assert "`why` must be a text in quotes (line 3)" in said
        said = await ask(agent, session, "/memory edit decisions - decision: Use make\n  why: It is there")
        assert "+- decision: Use make" in said


@pytest.mark.parametrize("word", ["text", "client", "tools"])
async def test_a_session_opens_again_when_words_that_its_own_choices_are_made_of_were_forgotten(word: str):
    model = ScriptedProvider([])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await ask(agent, session, "/tools text")
        await ask(agent, session, f"/remember me: a {word} of mine")
        assert "is forgotten" in await ask(agent, session, f"/memory forget human {word}")
        async with running_agent(model, database=agent.database.path) as later:
            params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
            await later.editor.request("session/load", params)
            assert "you chose it for this session" in await ask(later, session, "/tools")


async def test_memory_is_searched_by_its_verb_as_by_recall():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        await ask(agent, session, "/remember me: Deploys freeze in December.")
        found, _, _ = (await ask(agent, session, "/memory search deploys")).partition(" *(")
        assert found.endswith("Deploys freeze in December.")
        # Why it was found differs: it was recalled once now.
        assert (await ask(agent, session, "/recall deploys")).startswith(found)
