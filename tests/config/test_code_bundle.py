"""One file of code, used and written by processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment

USE = """
import sys
folder, file = sys.argv[1:3]
sys.path[:0] = [folder + "/first", folder + "/second"]
from importlib.machinery import PathFinder
from pattern_acp.config.code_bundle import CodeBundle
bundle = CodeBundle(file, "")
sys.meta_path.insert(sys.meta_path.index(PathFinder), bundle)
import house, house.kitchen, house.attic as attic
print(attic.WORD, type(house.__loader__).__name__, type(attic.__loader__).__name__)
print(house.__path__ == [folder + "/second/house"], attic.__file__ == folder + "/second/house/attic.py")
try:
    attic.fail()
except ZeroDivisionError:
    import traceback
    print("return 1 / 0" in traceback.format_exc(), attic.__file__ in traceback.format_exc())
bundle.renew()
"""

OURS, PYTHONS = "_Loader", "SourceFileLoader"


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "start.bundle"
        (path / "first").mkdir()
        (path / "second" / "house").mkdir(parents=True)
        self.write("second/house/__init__.py", "")
        self.write("second/house/kitchen.py", "")
        self.write("second/house/attic.py", "WORD = 'dust'\n\ndef fail():\n    return 1 / 0\n")
        # The folders are as they are from now on.
        self.use()

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def use(self, *options: str) -> list[str]:
        """What a process says that imports the package, and writes the file where it pays."""
        environment = {
            name: value for name, value in process_environment().items() if not name.startswith(("COV", "PYTHON"))
        }
        ran = subprocess.run(
            (sys.executable, *options, "-c", USE, str(self.path), str(self.file)),
            capture_output=True, check=False, env=environment, text=True, timeout=50,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split()


@pytest.fixture(name="folder")
def a_folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_modules_come_out_of_the_file_that_an_earlier_process_wrote(folder: Folder):
    assert folder.use() == ["dust", OURS, OURS, "True", "True", "True", "True"]


def test_a_source_that_changed_is_compiled_and_the_others_still_come_out_of_the_file(folder: Folder):
    folder.write("second/house/attic.py", "WORD = 'light'\n\ndef fail():\n    return 1 / 0\n")
    assert folder.use()[:3] == ["light", OURS, PYTHONS]
    assert folder.use()[:3] == ["light", OURS, OURS]


def test_a_package_that_comes_into_an_earlier_folder_is_the_one_that_counts(folder: Folder):
    (folder.path / "second" / "house").rename(folder.path / "away")
    (folder.path / "first" / "house").mkdir()
    for file in (folder.path / "away").glob("*.py"):
        file.rename(folder.path / "first" / "house" / file.name)
    said = folder.use()
    assert (said[:3], said[3:5]) == (["dust", PYTHONS, PYTHONS], ["False", "False"])


@pytest.mark.parametrize("keep", [0, 5, 300, -200, -1])
@pytest.mark.parametrize("filler", [b"", b"\0"])
def test_a_damaged_file_is_as_good_as_none(folder: Folder, keep: int, filler: bytes):
    whole = folder.file.read_bytes()
    kept = whole[:keep]
    folder.file.write_bytes(kept + filler * (len(whole) - len(kept)))
    said = folder.use()
    assert said[0] == "dust"
    assert said[3:] == ["True"] * 4
    assert folder.use()[:3] == ["dust", OURS, OURS] or keep < 0


def test_another_kind_of_code_does_not_come_out_of_the_file(folder: Folder):
    assert folder.use("-O")[:3] == ["dust", PYTHONS, PYTHONS]


def test_nothing_is_written_where_python_is_to_write_no_code(folder: Folder):
    folder.file.unlink()
    folder.use("-B")
    assert not folder.file.exists()
