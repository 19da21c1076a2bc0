"""Language servers over real pipes, with a small server that speaks the real framing."""

import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.programs import LSP_PROGRAMS
from pattern_acp.config.settings import LspSettings
from pattern_acp.lsp import server as server_module
from pattern_acp.lsp.model import KNOWN, FoundServer, LanguageServerError, ServerKind, Span, language_of
from pattern_acp.lsp.server import LanguageServer, ServerLocation, State
from pattern_acp.lsp.servers import LanguageServers
from pattern_acp.processes.groups import ChildProgramPorts
from tests.support.children import watched_command
from tests.support.language_server import command
from tests.support.language_servers import fake_server, language_servers

START = Span(0, 0, 0, 0)


async def edit(servers: LanguageServers, path: Path, before: str | None, after: str) -> list[str]:
    await servers.note_before(str(path), before)
    found = await servers.introduced({str(path): after})
    return [f"{error.line}:{error.column} {error.message}" for error in found.errors]


@pytest.mark.parametrize("kind", ["usual", "unversioned", "pull"])
async def test_only_what_an_edit_introduced_is_told(tmp_path: Path, kind: str):
    file = tmp_path / "a.txt"
    async with language_servers(tmp_path, fake_server(kind)) as servers:
        assert await edit(servers, file, "bad\n", "fine\nbad\n😀 bad\n") == ["3:3 bad is not allowed"]
        assert await edit(servers, file, "fine\nbad\n😀 bad\n", "fine\n") == []
        assert await edit(servers, file, "fine\n", "fine bad\n") == ["1:6 bad is not allowed"]


async def test_all_of_a_new_file_is_new(tmp_path: Path):
    async with language_servers(tmp_path, fake_server()) as servers:
        assert await edit(servers, tmp_path / "a.txt", None, "a bad one\n") == ["1:3 bad is not allowed"]


async def test_edits_that_are_compared_together_are_compared_with_the_text_before_the_first(tmp_path: Path):
    path = str(tmp_path / "a.txt")
    async with language_servers(tmp_path, fake_server()) as servers:
        await servers.note_before(path, "fine\n")
        await servers.note_before(path, "bad\n")
        (error,) = (await servers.introduced({path: "bad\nfine\n"})).errors
        assert error.line == 1


async def test_what_the_person_changed_meanwhile_is_not_the_edits(tmp_path: Path):
    file = tmp_path / "a.txt"
    async with language_servers(tmp_path, fake_server()) as servers:
        assert await edit(servers, file, "one\n", "two\n") == []
        assert await edit(servers, file, "bad\n", "bad\nthree\n") == []


async def test_what_comes_too_late_for_one_edit_is_told_later(tmp_path: Path):
    path, judged = str(tmp_path / "a.txt"), tmp_path / "judged"
    settings = replace(fake_server("held", str(judged)), wait_seconds=0)
    async with language_servers(tmp_path, settings) as servers:
        await servers.note_before(path, "bad\n")
        found = await servers.introduced({path: "bad\nbad\n"})
        assert (found.errors, found.waiting) == ((), ("fake",))
        judged.touch()
        with anyio.fail_after(30):
            while not found.errors:
                await anyio.lowlevel.checkpoint()
                found = await servers.later()
        assert [error.line for error in found.errors] == [2]
        assert (await servers.later()).errors == ()


async def test_places_are_found_in_the_text_that_was_told(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    file = tmp_path / "b.txt"
    file.write_text("old\n", encoding="utf-8")
    async with language_servers(tmp_path, fake_server()) as servers:
        at = Span(0, 3, 0, 6)
        (place,) = await servers.definition(str(file), "😀 one\n", at)
        assert (place.path, place.span.line) == (str(tmp_path / "a.txt"), 0)
        assert [Path(each.path).name for each in await servers.references(str(file), "😀 one\n", at)] == [
            "a.txt",
            "b.txt",
        ]
        edits = await servers.rename(str(file), "😀 one\n", at, "two")
        assert {Path(each.path).name: each.edits[0].span.unit for each in edits} == {"a.txt": 0, "b.txt": 3}


async def test_what_a_server_refuses_is_a_sentence(tmp_path: Path):
    path = str(tmp_path / "a.txt")
    async with language_servers(tmp_path, fake_server()) as servers:
        with pytest.raises(LanguageServerError, match="fake says: 1x is no name"):
            await servers.rename(path, "one\n", START, "1x")
        with pytest.raises(LanguageServerError, match=r"no language server for a\.other"):
            await servers.definition(str(tmp_path / "a.other"), "one", START)
    async with language_servers(tmp_path, fake_server("moves")) as servers:
        with pytest.raises(LanguageServerError, match="create, move or delete"):
            await servers.rename(path, "one\n", START, "two")
        with pytest.raises(LanguageServerError, match="no language server"):
            await servers.definition(str(tmp_path.parent / "a.txt"), "one", START)


async def test_a_server_that_ends_is_started_once_more(tmp_path: Path):
    file, mark = tmp_path / "a.txt", tmp_path / "mark"
    async with language_servers(tmp_path, fake_server("once", str(mark))) as servers:
        assert await edit(servers, file, "fine\n", "bad\n") == ["1:1 bad is not allowed"]
        assert mark.exists()
        assert servers.started.take_notices() == ()


async def test_a_server_that_ends_again_is_not_used_any_more_and_the_person_is_told_once(tmp_path: Path):
    file = tmp_path / "a.txt"
    async with language_servers(tmp_path, fake_server("dies")) as servers:
        assert await edit(servers, file, "fine\n", "bad\n") == []
        (sentence,) = servers.started.take_notices()
        assert sentence.startswith("The language server fake is not used any more: it ended (out of memory).")
        assert await edit(servers, file, "fine\n", "bad\n") == []
        assert servers.started.take_notices() == ()


def one_server(kind: str, tmp_path: Path, *, start: float = 60, answer: float = 30, idle: float = 60) -> LanguageServer:
    arguments = command(kind)
    found = FoundServer(ServerKind("fake", arguments, ("txt",)), arguments[0])
    place = ServerLocation(
        (str(tmp_path),), ChildProgramPorts({}), idle, {}, start_seconds=start, answer_seconds=answer
    )
    return LanguageServer(found, place)


@pytest.mark.parametrize(("kind", "problem"), [("mute", "it did not start within 0 s"), ("hangs", "it did not answer")])
async def test_a_server_that_hangs_is_ended_and_started_once_more(tmp_path: Path, kind: str, problem: str):
    # One that only hangs needs its time to start.
    server = one_server(kind, tmp_path, start=0.4 if kind == "mute" else 60, answer=0.4)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        for _ in range(server_module.RESTARTS + 1):
            with pytest.raises(LanguageServerError):
                await server.ask(lambda connection: connection.definition(str(tmp_path / "a.txt"), 0, 0))
        with anyio.fail_after(30):
            await server.gone.wait()
    assert (server.state, server.problem) == (State.FAILED, problem)


async def test_a_server_that_nobody_needs_ends(tmp_path: Path):
    server = one_server("usual", tmp_path, idle=0.1)
    with anyio.fail_after(30):
        await server.run()
    assert server.state is State.STOPPED


async def test_servers_and_their_children_die_with_the_session(tmp_path: Path):
    async with watched_command(tmp_path, "stubborn") as child:
        async with language_servers(tmp_path, fake_server("child", child.line)) as servers:
            assert await edit(servers, tmp_path / "a.txt", "fine\n", "bad\n") != []
            await child.wait_until_started()
        with anyio.fail_after(30):
            await child.wait_until_gone()


async def test_nothing_runs_when_it_is_off(tmp_path: Path):
    settings = replace(fake_server(), mode="off")
    async with language_servers(tmp_path, settings) as servers:
        assert await edit(servers, tmp_path / "a.txt", "fine\n", "bad\n") == []
        with pytest.raises(LanguageServerError):
            await servers.references(str(tmp_path / "a.txt"), "fine\n", START)


def installed(folder: Path, program: str, kind: str = "usual") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    runs, script, *_ = command(kind)
    (folder / program).write_text(f'#!/bin/sh\nexec "{runs}" "{script}" {kind}\n', encoding="utf-8")
    (folder / program).chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
@pytest.mark.parametrize("trusted", [False, True])
async def test_a_program_that_the_project_brings_runs_only_in_a_trusted_folder(tmp_path: Path, *, trusted: bool):
    bin_folder = tmp_path / "node_modules" / ".bin"
    installed(bin_folder, "pyright-langserver")
    # Also where the project's own folder is on PATH.
    async with language_servers(tmp_path, LspSettings(), trusted=trusted, path=str(bin_folder)) as servers:
        found = await edit(servers, tmp_path / "a.py", "fine\n", "bad\n")
        assert found == (["1:1 bad is not allowed"] if trusted else [])
        told = "The language server pyright would run a program of the project, so it waits until you trust"
        assert [told in sentence for sentence in servers.started.take_notices()] == ([] if trusted else [True])


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
async def test_a_server_that_runs_the_projects_code_waits_for_trust_though_it_is_installed(tmp_path: Path):
    installed(tmp_path / "bin", "rust-analyzer")
    root = tmp_path / "project"
    root.mkdir()
    async with language_servers(root, LspSettings(), path=str(tmp_path / "bin")) as servers:
        assert await edit(servers, root / "a.rs", "fine\n", "bad\n") == []
        (sentence,) = servers.started.take_notices()
        assert "would run build scripts and macros of its crates" in sentence
    async with language_servers(root, LspSettings(), trusted=True, path=str(tmp_path / "bin")) as servers:
        assert await edit(servers, root / "a.rs", "fine\n", "bad\n") == ["1:1 bad is not allowed"]


def test_every_known_server_is_looked_for_in_projects_too():
    assert {kind.command[0] for kind in KNOWN} == set(LSP_PROGRAMS)


def test_the_language_of_a_file_is_told_by_its_name():
    assert [language_of(name) for name in ("a.py", "b/c.TSX", "x.zig", "Makefile")] == [
        "python",
        "typescriptreact",
        "zig",
        "",
    ]
