"""What every `FileSystem` does. A new implementation adds its factory to `FILE_SYSTEMS`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pattern_acp.acp.client import ClientServers
from pattern_acp.acp.editor_ports import EditorFileSystem, ServerFileSystem
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.mcp_servers.catalogue import FileTools, LaunchContext
from pattern_acp.mcp_servers.server import Server, load_connect
from pattern_acp.workspace.delegation import DelegatingFileSystem
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.files import FileSystem, TextStore, fingerprint
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.overlay import OverlayFileSystem
from tests.support.client_server import BY_META, FILES, ClientServer
from tests.support.connected_editor import connected_editor
from tests.support.files import FakeFileSystem
from tests.support.mcp_fakes import means

Factory = Callable[[], AbstractAsyncContextManager[TextStore]]
"""A factory's store serves any absolute path below a temporary folder."""

WholeFactory = Callable[[], AbstractAsyncContextManager[FileSystem]]
"""One whose files can be moved and removed too."""


@asynccontextmanager
async def local() -> AsyncGenerator[FileSystem, None]:
    yield LocalFileSystem()


@asynccontextmanager
async def fake() -> AsyncGenerator[FileSystem, None]:
    yield FakeFileSystem()


@asynccontextmanager
async def delegating() -> AsyncGenerator[FileSystem, None]:
    disk = LocalFileSystem()
    warnings: list[str] = []
    yield DelegatingFileSystem(
        FakeFileSystem(disk=disk), disk, can_read=True, can_write=True, deadline=30, on_warning=warnings.append
    )
    assert warnings == []


@asynccontextmanager
async def reading_only() -> AsyncGenerator[FileSystem, None]:
    disk = LocalFileSystem()
    yield DelegatingFileSystem(
        FakeFileSystem(disk=disk), disk, can_read=True, can_write=False, deadline=30, on_warning=lambda _: None
    )


@asynccontextmanager
async def overlay() -> AsyncGenerator[FileSystem, None]:
    yield OverlayFileSystem(LocalFileSystem())


@asynccontextmanager
async def overlay_of_an_overlay() -> AsyncGenerator[FileSystem, None]:
    yield OverlayFileSystem(OverlayFileSystem(FakeFileSystem(disk=LocalFileSystem())))


@asynccontextmanager
async def editor() -> AsyncGenerator[TextStore, None]:
    async with connected_editor() as (_, dispatcher):
        yield EditorFileSystem(SessionId("ses_1"), dispatcher, 3)


@asynccontextmanager
async def server() -> AsyncGenerator[TextStore, None]:
    client = ClientServer(*BY_META)
    async with connected_editor(client.handlers()) as (_, dispatcher), anyio.create_task_group() as tasks:
        launch = LaunchContext("/", means(), ask_client=ClientServers(dispatcher).ask)
        connected = Server(McpServerSettings("editor", "acp", server_id=FILES), launch)
        tasks.start_soon(connected.run, load_connect())
        yield ServerFileSystem(connected, FileTools("open_text", "save_text"))
        tasks.cancel_scope.cancel()


FILE_SYSTEMS: dict[str, WholeFactory] = {
    "local": local,
    "fake": fake,
    "delegating": delegating,
    "reading only": reading_only,
    "overlay": overlay,
    "overlay of an overlay": overlay_of_an_overlay,
}

TEXT_STORES: dict[str, Factory] = {**FILE_SYSTEMS, "editor": editor, "server of the editor": server}


@pytest.fixture(params=list(TEXT_STORES))
def factory(request: pytest.FixtureRequest) -> Factory:
    return TEXT_STORES[request.param]


@pytest.fixture(params=list(FILE_SYSTEMS))
def whole_factory(request: pytest.FixtureRequest) -> WholeFactory:
    return FILE_SYSTEMS[request.param]


TEXTS = ["", "one\n", "no newline at the end", "one\r\ntwo\r\n", "mixed\r\nends\nhere\r", "ünï — 中文 🎉\n", "\n\n"]


@pytest.mark.parametrize("text", TEXTS)
async def test_a_text_is_read_as_it_was_written(factory: Factory, tmp_path: Path, text: str):
    path = str(tmp_path / "file.txt")
    with anyio.fail_after(30):
        async with factory() as files:
            written = await files.write_text_file(path, text)
            read = await files.read_text_file(path)
    assert (written.path, written.text) == (path, text)
    assert (read.path, read.text, read.fingerprint) == (path, text, fingerprint(text))


async def test_a_second_write_replaces_the_first(factory: Factory, tmp_path: Path):
    path = str(tmp_path / "file.txt")
    with anyio.fail_after(30):
        async with factory() as files:
            await files.write_text_file(path, "a much longer first text\n")
            await files.write_text_file(path, "short\n")
            assert (await files.read_text_file(path)).text == "short\n"


async def test_reading_a_file_that_does_not_exist_says_so_in_a_sentence(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as files:
            with pytest.raises(FileMissingError) as caught:
                await files.read_text_file(str(tmp_path / "nothing.txt"))
    assert caught.value.sentence.endswith(".")
    assert isinstance(caught.value, WorkspaceError)


async def test_writing_creates_the_folders_that_are_missing(factory: Factory, tmp_path: Path):
    path = str(tmp_path / "new" / "er" / "file.txt")
    with anyio.fail_after(30):
        async with factory() as files:
            await files.write_text_file(path, "text\n")
            assert (await files.read_text_file(path)).text == "text\n"


async def test_files_do_not_mix(factory: Factory, tmp_path: Path):
    with anyio.fail_after(30):
        async with factory() as files:
            await files.write_text_file(str(tmp_path / "a"), "A\n")
            await files.write_text_file(str(tmp_path / "b"), "B\n")
            assert (await files.read_text_file(str(tmp_path / "a"))).text == "A\n"


async def test_a_moved_file_is_at_its_new_name_only(whole_factory: WholeFactory, tmp_path: Path):
    old, new = str(tmp_path / "old"), str(tmp_path / "folder" / "new")
    with anyio.fail_after(30):
        async with whole_factory() as files:
            await files.write_text_file(old, "text\n")
            await files.move_file(old, new)
            assert (await files.read_text_file(new)).text == "text\n"
            with pytest.raises(FileMissingError):
                await files.read_text_file(old)
            await files.write_text_file(old, "again\n")
            assert (await files.read_text_file(old)).text == "again\n"
            with pytest.raises(WorkspaceError, match="exists already"):
                await files.move_file(old, new)


async def test_a_removed_file_is_gone(whole_factory: WholeFactory, tmp_path: Path):
    path = str(tmp_path / "file")
    with anyio.fail_after(30):
        async with whole_factory() as files:
            await files.write_text_file(path, "text\n")
            await files.remove_file(path)
            with pytest.raises(FileMissingError):
                await files.read_text_file(path)
            with pytest.raises(FileMissingError):
                await files.remove_file(path)
            with pytest.raises(FileMissingError):
                await files.move_file(path, str(tmp_path / "other"))
