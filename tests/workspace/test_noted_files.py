from collections.abc import Sequence
from pathlib import Path

import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.snapshots import ObservedFiles


async def test_every_change_is_told_and_no_reading(tmp_path: Path):
    noted: list[str] = []

    def note(paths: Sequence[str]) -> None:
        noted.extend(Path(path).name for path in paths)

    files = ObservedFiles(LocalFileSystem(), note)
    one, two = str(tmp_path / "one.txt"), str(tmp_path / "two.txt")
    await files.write_text_file(one, "text")
    assert (await files.read_text_file(one)).text == "text"
    assert noted == ["one.txt"]
    await files.move_file(one, two)
    await files.remove_file(two)
    assert noted == ["one.txt", "one.txt", "two.txt", "two.txt"]
    with pytest.raises(WorkspaceError):
        await files.write_text_file(str(tmp_path), "a folder")
    assert noted[-1] == tmp_path.name
