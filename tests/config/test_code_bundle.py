"""One file of code, used and written by processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment

USE = """
import os, sys
folder, file, before, after = sys.argv[1:5]
from importlib.machinery import PathFinder
from pattern_acp.config.code_bundle import CodeBundle
sys.path[:] = [folder + "/first", folder + "/second", os.path.dirname(os.__file__)]
exec(before)
bundle = CodeBundle(file)
sys.meta_path.insert(sys.meta_path.index(PathFinder), bundle)
import house, house.kitchen, house.attic as attic
print(attic.WORD, type(house.__loader__).__name__, type(attic.__loader__).__name__)
print(house.__path__ == [folder + "/second/house"], attic.__file__ == folder + "/second/house/attic.py")
try:
    attic.fail()
except ZeroDivisionError:
    import traceback
    print("return 1 / 0" in traceback.format_exc(), attic.__file__ in traceback.format_exc())
exec(after)
bundle.renew()
"""

OURS, PYTHONS = "_Loader", "SourceFileLoader"


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.bundles = path / "bundles"
        for name in ("bundles", "first", "second/house", "second/project"):
            (path / name).mkdir(parents=True)
        self.write("second/house/__init__.py", "")
        self.write("second/house/kitchen.py", "")
        self.write("second/house/attic.py", "WORD = 'dust'\n\ndef fail():\n    return 1 / 0\n")
        # The folders are as they are from now on.
        self.use()

    @property
    def file(self) -> Path:
        """The only file of code."""
        (file,) = self.bundles.iterdir()
        return file

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def use(self, *options: str, before: str = "", after: str = "", bundles: str = "bundles") -> list[str]:
        """What a process says that imports the package, and writes the file where it pays."""
        return run(
            *options, "-c", USE, str(self.path), str(self.path / bundles / "start"), before, after,
            cwd=self.path,
        )  # fmt: skip


def run(*arguments: str, cwd: Path) -> list[str]:
    environment = {
        name: value for name, value in process_environment().items() if not name.startswith(("COV", "PYTHON"))
    }
    ran = subprocess.run(
        (sys.executable, *arguments),
        capture_output=True, check=False, cwd=cwd, env=environment, text=True, timeout=50,
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
    assert not list(folder.bundles.iterdir())


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**46, 2**20])
def test_a_length_that_is_more_than_the_file_has_is_damage(folder: Folder, length: int):
    folder.file.write_bytes(length.to_bytes(8) + folder.file.read_bytes()[8:])
    assert folder.use()[:3] == ["dust", PYTHONS, PYTHONS]
    assert folder.use()[:3] == ["dust", OURS, OURS]


def test_an_index_in_which_anything_changed_is_damage(folder: Folder):
    whole = folder.file.read_bytes()
    at = whole.index(b"attic.py")
    folder.file.write_bytes(whole[:at] + b"cellar.p" + whole[at + 8 :])
    assert folder.use()[:3] == ["dust", PYTHONS, PYTHONS]


def test_a_source_that_changes_behind_its_import_does_not_leave_old_code_in_the_file(folder: Folder):
    light = "WORD = 'light'\n\ndef fail():\n    return 1 / 0\n"
    # One of the modules comes from Python, so the file is written again.
    folder.write("second/house/kitchen.py", "CHANGED = True")
    assert folder.use(after=f"open(attic.__file__, 'w').write({light!r})")[:3] == ["dust", OURS, OURS]
    assert folder.use()[0] == "light"
    assert folder.use()[:3] == ["light", OURS, OURS]


@pytest.mark.parametrize(
    "change",
    [
        "os.remove(house.kitchen.__file__)",
        "open(house.kitchen.__file__, 'w').write('def')",
        "open(house.kitchen.__file__, 'wb').write(bytes(1))",
    ],
)
def test_a_source_without_code_is_left_out(folder: Folder, change: str):
    folder.write("second/house/kitchen.py", "CHANGED = True")
    folder.write("second/house/attic.py", "WORD = 'light'\n\ndef fail():\n    return 1 / 0\n")
    assert folder.use(after=change)[:3] == ["light", OURS, PYTHONS]
    folder.write("second/house/kitchen.py", "")
    assert folder.use()[0] == "light"


def test_a_package_that_comes_into_an_earlier_folder_behind_the_import_is_not_hidden(folder: Folder):
    folder.file.unlink()
    folder.use(after="import shutil; shutil.copytree(folder + '/second/house', folder + '/first/house')")
    assert folder.use()[3:5] == ["False", "False"]


@pytest.mark.parametrize(
    "change",
    [
        "os.chdir('gone'); os.rmdir(os.getcwd())",
        "sys.implementation.cache_tag = None",
        "sys.path.append('')",
        "sys.path.append(os.getcwd())",
        "os.symlink(os.getcwd(), 'same'); sys.path.append(os.path.abspath('same'))",
    ],
)
def test_a_start_without_a_current_folder_or_with_it_on_the_path_or_without_files_of_code_uses_no_file(
    tmp_path: Path, change: str
):
    (tmp_path / "gone").mkdir()
    use = (
        "import os, sys; from pattern_acp.config.code_bundle import renew_bundle, use_bundle;"
        f"sys.path.remove(''); before = list(sys.meta_path); {change}; use_bundle(); print(sys.meta_path == before)"
    )
    assert run("-c", use, cwd=tmp_path) == ["True"]
    assert run("-c", use.replace(change, "pass"), cwd=tmp_path) == ["False"]


def test_no_code_is_put_together_where_it_cannot_be_written(folder: Folder):
    count = """
import atexit
dumped = []
sys.addaudithook(lambda event, _: event == "marshal.dumps" and dumped.append(event))
atexit.register(lambda: print(bool(dumped)))
"""
    (folder.path / "others").mkdir()
    assert folder.use(after=count, bundles="others")[-1] == "True"
    assert folder.use(after=count, bundles="nowhere")[-1] == "False"


def test_environments_in_turn_have_a_file_each(folder: Folder):
    folder.use("-O")
    assert folder.use()[:3] == ["dust", OURS, OURS]
    assert folder.use("-O")[:3] == ["dust", OURS, OURS]


def test_only_the_newest_four_files_stay(folder: Folder):
    (folder.bundles / "start-1234.pyc.99.tmp").touch()
    (folder.bundles / "start.other.pyc").touch()
    for number in range(4):
        folder.use(before=f"sys.path.append(folder + '/{number}')")
    names = [each.name for each in folder.bundles.iterdir()]
    assert len([each for each in names if each.startswith("start-") and each.endswith(".pyc")]) == 4
    assert (len(names), "start.other.pyc" in names) == (5, True)
    assert folder.use(before="sys.path.append(folder + '/0')")[:3] == ["dust", OURS, OURS]
