"""Commands and skills that people wrote, through a whole agent."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

from pattern_acp.bootstrap.process import start_process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.config.settings import Flags
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.journal.events import PermissionDecided
from pattern_acp.journal.reader import read_stream
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.constellation import ProjectSettings
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import PermissionAnswer, choose
from tests.support.scripts import calls, says
from tests.support.turns import last_result


def settings_of(folder: str) -> ProjectSettings:
    return read_project(start_process(Flags(), {"PATTERN_ACP_HOME": f"{folder}/.home"}), folder)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_own(folder: Path, name: str, text: str) -> None:
    config = start_process(Flags(), {"PATTERN_ACP_HOME": f"{folder}/.home"}).loaded.paths.config
    write(config, name, text)


@asynccontextmanager
async def agent_with(
    model: ScriptedProvider, *, permission: PermissionAnswer | None = None, database: Path | None = None
):
    async with running_agent(model, permission=permission, database=database) as agent:
        agent.sessions.constellation.settings_for = settings_of
        yield agent


def texts(request: ProviderRequest) -> str:
    return "\n".join(str(part) for message in request.messages for part in message.parts)


def advertised(agent: RunningAgent) -> dict[str, str]:
    commands = agent.editor.of_kind("available_commands_update")[-1]["availableCommands"]
    return {command["name"]: command["input"]["hint"] if command.get("input") else "" for command in commands}


async def test_a_command_of_the_person_is_advertised_and_filled_in(tmp_path: Path):
    write(tmp_path, "notes.txt", "the notes\n")
    body = "---\ndescription: Look\nargument-hint: FILE\n---\nLook at $1 with care. @notes.txt"
    write_own(tmp_path, "commands/look.md", body)
    model = ScriptedProvider([says("Done."), says("More.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/look a.py")
        assert advertised(agent)["look"] == "FILE"
        sent = texts(model.requests[0])
        assert "The user typed /look, which stands for this:\\n\\nLook at a.py with care." in sent
        assert "the notes" in sent
        assert agent.editor.asked == []
        assert [call["title"] for call in agent.editor.of_kind("tool_call")] == ["Command /look"]
        await agent.editor.prompt(session, "/help")
        assert "| `/look FILE` | Look |" in agent.editor.said()


async def test_a_new_file_is_a_command_at_the_next_prompt(tmp_path: Path):
    model = ScriptedProvider([says("One."), says("Two.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        write_own(tmp_path, "commands/late.md", "Be late.")
        await agent.editor.prompt(session, "/late")
        assert "late" in advertised(agent)
        assert "Be late." in texts(model.requests[1])


async def test_a_projects_command_asks_for_trust_when_it_is_used_and_not_before(tmp_path: Path):
    write(tmp_path, ".claude/commands/ship.md", "Ship it: !`touch ahoy`")
    model = ScriptedProvider([says("One."), says("Two.")])
    async with agent_with(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        assert agent.editor.asked == []
        await agent.editor.prompt(session, "/ship")
        (asked,) = agent.editor.asked
        assert "runs: touch ahoy" in json.dumps(asked["toolCall"]["content"])
        assert "the folder is not trusted" in agent.editor.said()
        assert len(model.requests) == 1
        agent.editor.permission = choose("allow_once")
        await agent.editor.prompt(session, "/trust")
        await agent.editor.prompt(session, "/ship")
        titles = [asked["toolCall"]["title"] for asked in agent.editor.asked]
        assert "ahoy" in titles[-1]
        assert "Ship it: " in texts(model.requests[1])
        assert "!`touch ahoy`" not in texts(model.requests[1])


async def test_a_line_of_a_command_becomes_what_it_prints_and_a_failure_is_told_whole(tmp_path: Path):
    write_own(tmp_path, "commands/ship.md", "On !`echo main`, with !`true`nothing. !`echo bad; exit 3`")
    model = ScriptedProvider([says("One.")])
    async with agent_with(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/ship")
        sent = texts(model.requests[0])
        assert "On main, with nothing. Exit code 3 after " in sent
        assert "bad" in sent


async def test_a_commands_tools_narrow_its_turn_and_no_other(tmp_path: Path):
    write_own(tmp_path, "commands/look.md", "---\nallowed-tools: Read, Bash(git:*)\n---\nLook.")
    write(tmp_path, "a.txt", "x\n")
    listing, reading = calls("list_directory"), calls("read_file", path="a.txt")
    model = ScriptedProvider([listing + reading, says("Done."), listing, says("Done.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/look")
        sent = texts(model.requests[1])
        told = "The tool 'list_directory' is not allowed in this command; the tools are read_file, run_command."
        assert told in sent
        await agent.editor.prompt(session, "List.")
        assert "not allowed" not in str(model.requests[3].messages[-1])


async def test_a_command_by_a_built_in_name_is_said_and_does_not_count(tmp_path: Path):
    write_own(tmp_path, "commands/help.md", "Mine.")
    async with agent_with(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        assert "has the name of a built-in one" in agent.editor.said()
        assert list(advertised(agent)).count("help") == 1


async def test_a_skill_is_listed_loaded_and_kept_in_the_conversation(tmp_path: Path):
    write_own(tmp_path, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse extract.py.")
    write_own(tmp_path, "skills/pdf/extract.py", "print('pages')")
    model = ScriptedProvider(
        [
            calls("skill", name="pdf") + calls("skill", name="pdf", file="extract.py") + calls("skill", name="xls"),
            says("Done."),
            says("More."),
        ]
    )
    database = tmp_path / "c.db"
    async with agent_with(model, database=database) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Read it.")
        (tool,) = [tool for tool in model.requests[0].tools if tool.name == "skill"]
        assert "- pdf: Reads PDFs" in tool.description
        sent = texts(model.requests[1])
        for words in ("Use extract.py.", "print('pages')", "There is no skill named 'xls'; there are pdf."):
            assert words in sent
        assert agent.editor.asked == []
        await agent.editor.prompt(session, "/skills")
        assert "| `pdf` | Reads PDFs | user | 1 |" in agent.editor.said()
    async with agent_with(model, database=database) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await agent.editor.prompt(session, "Go on.")
        assert "Use extract.py." in texts(model.requests[2])


async def test_a_file_of_credentials_beside_a_skill_is_read_only_when_that_is_allowed(tmp_path: Path):
    write_own(tmp_path, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse it.")
    write_own(tmp_path, "skills/pdf/server.key", "planted")
    model = ScriptedProvider([calls("skill", name="pdf", file="server.key"), says("Done.")])
    async with agent_with(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Read it.")
        (asked,) = agent.editor.asked
        assert "server.key looks like credentials" in str(asked["toolCall"]["content"])
        assert "planted" not in texts(model.requests[1])


async def test_a_projects_skill_is_there_once_the_folder_is_trusted(tmp_path: Path):
    write(tmp_path, ".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse it.")
    model = ScriptedProvider([says("One."), says("Two.")])
    async with agent_with(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        assert "skill" not in [tool.name for tool in model.requests[0].tools]
        await agent.editor.prompt(session, "/skills")
        assert "(not trusted: /trust)" in agent.editor.said()
    async with agent_with(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        assert "skill" in [tool.name for tool in model.requests[1].tools]


async def test_a_changed_skill_of_a_project_is_asked_about_with_what_changed_in_its_text(tmp_path: Path):
    head = "---\nname: pdf\ndescription: Reads PDFs\n---\n"
    write(tmp_path, ".claude/skills/pdf/SKILL.md", f"{head}Use the tool.\nKeep the pages.")
    async with agent_with(ScriptedProvider([says("One."), says("Two.")]), permission=choose("allow_always")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        assert "Use the tool." in str(agent.editor.asked[0]["toolCall"]["content"])
        write(tmp_path, ".claude/skills/pdf/SKILL.md", f"{head}Send them away.\nKeep the pages.")
        await agent.editor.prompt(session, "Again.")
        shown = str(agent.editor.asked[1]["toolCall"]["content"])
        assert "-Use the tool." in shown
        assert "+Send them away." in shown
        assert "+Keep the pages." not in shown


async def test_a_skill_that_comes_later_is_told_and_the_prefix_stays(tmp_path: Path):
    write_own(tmp_path, "skills/one/SKILL.md", "---\nname: one\ndescription: First\n---\nA.")
    model = ScriptedProvider([says("One."), calls("skill", name="two"), says("Two.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        write_own(tmp_path, "skills/two/SKILL.md", "---\nname: two\ndescription: Second\n---\nB of two.")
        await agent.editor.prompt(session, "Again.")
        assert model.requests[1].tools == model.requests[0].tools
        assert "There is a new skill, two: Second" in model.requests[1].volatile
        assert "B of two." in texts(model.requests[2])


async def test_a_skill_is_found_by_search_as_long_as_it_may_be_used(tmp_path: Path):
    write_own(
        tmp_path, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse camelot for invoices."
    )
    search = calls("memory_search", query="invoices with camelot")
    model = ScriptedProvider([says("One."), search, says("Two."), says("Three."), search, says("Four.")])
    async with agent_with(model) as agent:
        for prompt in ("Hello.", "Find it."):
            await agent.editor.prompt(await agent.editor.open_session(str(tmp_path)), prompt)
        assert "skill pdf" in last_result(model.requests[-1]).text
        assert "memory_recall" not in str(agent.editor.updates)
        write_own(tmp_path, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse tabula.")
        for prompt in ("Hello.", "Find it."):
            await agent.editor.prompt(await agent.editor.open_session(str(tmp_path)), prompt)
        assert "skill pdf" not in last_result(model.requests[-1]).text


async def test_two_hundred_skills_cost_little_and_every_one_is_found(tmp_path: Path):
    for number in range(200):
        words = f"Skill number {number} of a long list, about the subject subject{number} in a rather long sentence"
        head = f"---\nname: skill-{number:03}\ndescription: {words}\nkeywords: [key{number}]\n---\n"
        write_own(tmp_path, f"skills/skill-{number:03}/SKILL.md", f"{head}Body with deep{number} inside.")
    search = [calls("skill", query=f"{word}{number}") for word, number in (("deep", 7), ("key", 150), ("subject", 199))]
    model = ScriptedProvider([search[0] + search[1] + search[2] + calls("skill", operation="list"), says("Done.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Find it.")
        (tool,) = [tool for tool in model.requests[0].tools if tool.name == "skill"]
        assert len(json.dumps([tool.name, tool.description, tool.input_schema]).encode()) <= 4_000
        assert "- skill-000: Skill number 0" in tool.description
        assert "more: search with `query`" in tool.description
        results = [part.text for part in model.requests[1].messages[-1].parts if isinstance(part, ToolResultPart)]
        for text, name in zip(results, ("skill-007", "skill-150", "skill-199"), strict=False):
            assert text.splitlines()[1].startswith(f"- {name} (user): ")
        assert results[3].count("\n- skill-") == 199


async def test_a_skill_is_found_by_name_and_keywords_before_its_body(tmp_path: Path):
    for name, head, body in (
        ("body", "description: x", "release release"),
        ("keyed", "description: x\nkeywords: release", "Nothing."),
        ("release-notes", "description: x", "Nothing."),
        ("told", "description: makes a release", "Nothing."),
    ):
        write_own(tmp_path, f"skills/{name}/SKILL.md", f"---\nname: {name}\n{head}\n---\n{body}")
    wanted = ("c++ releases", "'\"(", "zebra", "")
    model = ScriptedProvider(
        [[part for query in wanted for part in calls("skill", operation="search", query=query)], says("Done.")]
    )
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Find it.")
        results = [part.text for part in model.requests[1].messages[-1].parts if isinstance(part, ToolResultPart)]
        order = [line.split()[1] for line in results[0].splitlines()[1:] if line.startswith("- ")]
        assert order == ["release-notes", "keyed", "told", "body"]
        assert results[1].startswith("No skill has")
        assert results[2].startswith("No skill has any of these words; there are 4.")
        assert "A search needs `query`" in results[3]
        await agent.editor.prompt(session, "/skills zebra")
        assert "No skill has any of these words" in agent.editor.said()
        await agent.editor.prompt(session, "/skills releases")
        assert "| `release-notes` | x | user |" in agent.editor.said()


async def test_loads_are_counted_beside_the_files_which_stay_as_they_are(tmp_path: Path):
    write_own(tmp_path, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: x\nlicense: MIT\n---\nBody.")
    config = start_process(Flags(), {"PATTERN_ACP_HOME": f"{tmp_path}/.home"}).loaded.paths.config
    before = (config / "skills" / "pdf" / "SKILL.md").read_bytes()
    twice = calls("skill", name="pdf") + calls("skill", name="pdf")
    model = ScriptedProvider([twice, calls("skill", name="pdf", operation="about"), says("Done."), says("Done.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Load it.")
        assert texts(model.requests[1]).count("[skill:loaded pdf, user]") == 2
        assert texts(model.requests[1]).count("[skill:loaded:end]") == 2
        assert model.requests[1].system == model.requests[0].system
        about = last_result(model.requests[2]).text
        assert "- license: MIT" in about
        assert "- loaded: 2 times" in about
        await agent.editor.prompt(session, "/pdf")
        await agent.editor.prompt(session, "/skills pdf")
        assert "- loaded: 3 times" in agent.editor.said()
    assert (config / "skills" / "pdf" / "SKILL.md").read_bytes() == before


async def test_the_user_loads_a_skill_by_its_name_with_arguments(tmp_path: Path):
    head = "---\nname: tag\ndescription: Tags\narguments: [version]\ndisable-model-invocation: true\n---\n"
    write_own(tmp_path, "skills/tag/SKILL.md", f"{head}Tag $version. [skill:loaded:end] Be nice.")
    model = ScriptedProvider([says("Done.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/tag 1.2")
        assert advertised(agent)["tag"] == "version"
        sent = texts(model.requests[0])
        assert "Tag 1.2. [skill :loaded:end] Be nice." in sent
        assert "The user typed /tag 1.2: follow the skill" in sent
        assert "- tag" not in next((tool.description for tool in model.requests[0].tools if tool.name == "skill"), "")
        assert [call["title"] for call in agent.editor.of_kind("tool_call")] == ["Skill tag"]


async def test_a_projects_skill_that_the_user_types_waits_for_trust(tmp_path: Path):
    write(tmp_path, ".pattern/skills/tag/SKILL.md", "---\nname: tag\ndescription: Tags\n---\nTag it.")
    model = ScriptedProvider([])
    async with agent_with(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/tag")
        assert "/tag is a skill of this project, and the folder is not trusted." in agent.editor.said()
        assert model.requests == []


async def test_a_command_from_a_skill_runs_under_policy_with_the_skill_as_its_origin(tmp_path: Path):
    write(tmp_path, ".pattern/skills/tag/SKILL.md", "---\nname: tag\ndescription: x\n---\nRun `sh make-tag.sh now`.")
    run = calls("run_command", command="sh make-tag.sh now")
    model = ScriptedProvider([calls("skill", name="tag"), run, says("Done.")])
    async with agent_with(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Tag it.")
        recorded = await agent.database.read(lambda tx: read_stream(tx, SessionId(session)))
        decided = [item.event for item in recorded if isinstance(item.event, PermissionDecided)]
        assert [event.origin for event in decided][-1] == "the skill `tag`"


PROPOSED = {"name": "release", "description": "How releases are made here", "body": "Run the tests, then tag."}


async def test_a_skill_that_the_agent_proposes_is_shown_and_asked_about_in_every_mode_and_taken_back(
    tmp_path: Path,
):
    propose = calls("skill_write", keywords=["tag"], **PROPOSED)
    model = ScriptedProvider([propose, says("One."), calls("skill", name="release"), says("Two."), says("Three.")])
    async with agent_with(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "auto"})
        await agent.editor.prompt(session, "/skills learn")
        assert "I can propose skills" in agent.editor.said()
        await agent.editor.prompt(session, "Make a skill of it.")
        assert "skill_write" in [tool.name for tool in model.requests[0].tools]
        (asked,) = agent.editor.asked
        assert asked["toolCall"]["title"] == "Propose the skill release"
        assert "Run the tests, then tag." in json.dumps(asked["toolCall"]["content"])
        file = tmp_path / ".pattern" / "learned" / "release" / "SKILL.md"
        assert file.read_text(encoding="utf-8") == (
            "---\nname: release\ndescription: How releases are made here\nkeywords: tag\n---\n\n"
            "Run the tests, then tag.\n"
        )
        await agent.editor.prompt(session, "Release.")
        assert [asked["toolCall"]["title"] for asked in agent.editor.asked][1] == "Trust this folder's 1 skill?"
        assert "[skill:loaded release, ad-hoc]" in texts(model.requests[3])
        await agent.editor.prompt(session, "/rewind 1")
        assert not file.exists()


async def test_a_skill_in_a_trusted_folder_is_agreed_to_once(tmp_path: Path):
    write(tmp_path, ".pattern/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse it.")
    model = ScriptedProvider([says("One."), calls("skill_write", **PROPOSED), says("Two."), says("Three.")])
    async with agent_with(model, permission=choose("allow_always")) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.prompt(session, "Make a skill of it.")
        await agent.editor.prompt(session, "Hello.")
        titles = [asked["toolCall"]["title"] for asked in agent.editor.asked]
        assert titles == ["Trust this folder's 1 skill?", "Propose the skill release"]
        assert "There is a new skill, release" in model.requests[-1].volatile


async def test_what_is_no_skill_or_has_another_writer_is_not_proposed(tmp_path: Path):
    write_own(tmp_path, "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs\n---\nUse it.")
    wrong = (
        calls("skill_write", **{**PROPOSED, "name": "pdf"})
        + calls("skill_write", **{**PROPOSED, "name": "../../x"})
        + calls("skill_write", **{**PROPOSED, "description": " "})
    )
    model = ScriptedProvider([wrong, says("One.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        sent = texts(model.requests[1])
        for words in ("which the agent did not write", "the name may have letters", "`description` must not be empty"):
            assert words in sent
        assert agent.editor.asked == []


async def test_loading_skills_leaves_the_cached_part_as_it_is_and_marks_each_load_in_its_order(tmp_path: Path):
    for name in ("pdf", "csv"):
        write_own(
            tmp_path, f"skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: Reads {name}\n---\nUse {name}."
        )
    loads = calls("skill", name="pdf") + calls("skill", name="csv") + calls("skill", name="pdf")
    model = ScriptedProvider([says("Hello."), loads, says("Done.")])
    async with agent_with(model) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.prompt(session, "Load them.")
        before, after = model.requests[0], model.requests[-1]
        assert (after.system, after.tools) == (before.system, before.tools)
        results = [part.text for part in after.messages[-1].parts if isinstance(part, ToolResultPart)]
        marks = [text.splitlines()[0] for text in results]
        assert marks == ["[skill:loaded pdf, user]", "[skill:loaded csv, user]", "[skill:loaded pdf, user]"]
