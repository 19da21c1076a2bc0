import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.errors import PathUnusableError, WorkspaceError
from pattern_acp.domain.paths import (
    MACOS,
    POSIX,
    WINDOWS,
    Flavour,
    absolute_path,
    display_path,
    is_within,
    resolve_path,
)

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a.py", "/work/proj/a.py"),
        ("./src/../a.py", "/work/proj/a.py"),
        (".", "/work/proj"),
        ("../x", "/work/x"),
        ("../../../../x", "/x"),
        ("/etc//hosts", "/etc/hosts"),
        ("//etc/hosts", "/etc/hosts"),
        ("/a/./b/", "/a/b"),
        ("~", "/home/me"),
        ("~/notes.md", "/home/me/notes.md"),
        ("~other/notes.md", "/work/proj/~other/notes.md"),
        ("file:///etc/hosts", "/etc/hosts"),
        ("file:/etc/hosts", "/etc/hosts"),
        ("FILE://localhost/a%20b.txt", "/a b.txt"),
        ("file:///a.py#L10", "/a.py"),
        ("a b ", "/work/proj/a b "),
        ("src\\a.py", "/work/proj/src\\a.py"),
        ("C:\\a.py", "/work/proj/C:\\a.py"),
        ("ünï.py", "/work/proj/ünï.py"),
    ],
)
def test_a_posix_path_is_made_absolute(raw: str, expected: str):
    assert absolute_path(raw, "/work/proj", flavour=POSIX, home="/home/me") == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a.py", "C:\\proj\\a.py"),
        ("src/sub\\a.py", "C:\\proj\\src\\sub\\a.py"),
        ("..\\x", "C:\\x"),
        ("..\\..\\..\\x", "C:\\x"),
        ("d:\\Data\\a.py", "D:\\Data\\a.py"),
        ("c:/proj/a.py", "C:\\proj\\a.py"),
        ("/c:/proj/a.py", "C:\\proj\\a.py"),
        ("\\Windows", "C:\\Windows"),
        ("C:a.py", "C:\\proj\\a.py"),
        ("D:a.py", "D:\\a.py"),
        ("\\\\host\\share\\dir\\a.py", "\\\\host\\share\\dir\\a.py"),
        ("//host/share/a.py", "\\\\host\\share\\a.py"),
        ("\\\\?\\C:\\long\\a.py", "C:\\long\\a.py"),
        ("\\\\?\\UNC\\host\\share\\a.py", "\\\\host\\share\\a.py"),
        ("file:///C:/a%20b.py", "C:\\a b.py"),
        ("file:///c%3A/a.py", "C:\\a.py"),
        ("file://host/share/a.py", "\\\\host\\share\\a.py"),
        ("file://C:/a.py", "C:\\a.py"),
        ("~\\a.py", "C:\\Users\\me\\a.py"),
        ("C:\\", "C:\\"),
    ],
)
def test_a_windows_path_is_made_absolute(raw: str, expected: str):
    assert absolute_path(raw, "C:\\proj", flavour=WINDOWS, home="C:\\Users\\me") == expected


@pytest.mark.parametrize("raw", ["", "  ", "a\0b", "\ud800", "file:///a%00b", "file:", "file://otherhost/etc/hosts"])
def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(raw: str):
    with pytest.raises(WorkspaceError) as caught:
        absolute_path(raw, "/work", flavour=POSIX)
    assert caught.value.sentence.endswith(".")


@pytest.mark.parametrize(
    "raw", ["NUL", "src\\con.txt", "a.txt:stream", "trailing.", "trailing ", "\\\\.\\PhysicalDrive0", "COM1", "..\\aux"]
)
def test_a_windows_device_or_stream_is_refused(raw: str):
    with pytest.raises(WorkspaceError):
        absolute_path(raw, "C:\\proj", flavour=WINDOWS)


@pytest.mark.parametrize(("cwd", "flavour"), [("work", POSIX), ("proj", WINDOWS)])
def test_a_relative_working_folder_is_refused(cwd: str, flavour: Flavour):
    with pytest.raises(WorkspaceError):
        absolute_path("a.py", cwd, flavour=flavour)


@pytest.mark.parametrize(
    ("path", "roots", "flavour", "inside"),
    [
        ("/a/b", ["/a/b"], POSIX, True),
        ("/a/b/c", ["/a/b"], POSIX, True),
        ("/a/bc", ["/a/b"], POSIX, False),
        ("/a", ["/a/b"], POSIX, False),
        ("/a/b", [], POSIX, False),
        ("/x", ["/a", "/x"], POSIX, True),
        ("/anything", ["/"], POSIX, True),
        ("/a/B/c", ["/a/b"], POSIX, False),
        ("/a/B/c", ["/a/b"], MACOS, True),
        ("/caf\u0065\u0301/x", ["/caf\u00e9"], MACOS, True),
        ("c:\\PROJ\\a", ["C:\\proj"], WINDOWS, True),
        ("C:\\project\\a", ["C:\\proj"], WINDOWS, False),
        ("D:\\proj\\a", ["C:\\proj"], WINDOWS, False),
        ("C:/proj/a", ["C:\\proj"], WINDOWS, True),
        ("C:\\a", ["C:\\"], WINDOWS, True),
        ("\\\\host\\share\\a", ["\\\\HOST\\share"], WINDOWS, True),
        ("\\\\host\\share2\\a", ["\\\\host\\share"], WINDOWS, False),
        ("\\\\?\\C:\\proj\\a", ["C:\\proj"], WINDOWS, True),
    ],
)
def test_a_path_is_within_a_root_by_whole_parts(path: str, roots: list[str], flavour: Flavour, inside: object):
    assert is_within(path, roots, flavour=flavour) is inside


names = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0:"), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."} and not name.endswith((" ", ".")) and bool(name.strip())
)


@given(st.lists(names, max_size=4), st.lists(names, max_size=4))
def test_what_is_below_a_root_is_within_it(root_parts: list[str], below: list[str]):
    root = "/" + "/".join(root_parts)
    path = "/" + "/".join(root_parts + below)
    assert is_within(path, [root], flavour=POSIX)
    assert is_within(path, [root], flavour=MACOS)
    windows_root = "C:\\" + "\\".join(root_parts)
    assert is_within("c:\\" + "\\".join(root_parts + below), [windows_root], flavour=WINDOWS)


@given(st.lists(names, max_size=4), st.lists(st.one_of(names, st.sampled_from([".", ".."])), max_size=6))
def test_a_relative_path_stays_within_exactly_when_it_never_climbs_out(root_parts: list[str], parts: list[str]):
    root = "/" + "/".join(["top", *root_parts])
    walked = ["top", *root_parts]
    for part in parts:
        if part == "..":
            walked = walked[:-1]
        elif part != ".":
            walked.append(part)
    expected = walked[: 1 + len(root_parts)] == ["top", *root_parts]
    raw = "./" + "/".join(parts)
    assert is_within(absolute_path(raw, root, flavour=POSIX), [root], flavour=POSIX) is expected


@given(st.text(max_size=30))
def test_any_text_becomes_an_absolute_path_or_is_refused(raw: str):
    for flavour, cwd in ((POSIX, "/work"), (WINDOWS, "C:\\work")):
        try:
            path = absolute_path(raw, cwd, flavour=flavour, home=cwd)
        except WorkspaceError:
            continue
        assert absolute_path(path, cwd, flavour=flavour) == path
        assert path.startswith("/") or flavour.windows


@pytest.mark.parametrize(
    ("path", "cwd", "flavour", "shown"),
    [
        ("/work/src/a.py", "/work", POSIX, "src/a.py"),
        ("/work", "/work", POSIX, "."),
        ("/workshop/a.py", "/work", POSIX, "/workshop/a.py"),
        ("C:\\Work\\src\\a.py", "c:\\work", WINDOWS, "src/a.py"),
        ("D:\\a.py", "C:\\work", WINDOWS, "D:\\a.py"),
    ],
)
def test_a_path_is_shown_relative_to_the_working_folder(path: str, cwd: str, flavour: Flavour, shown: str):
    assert display_path(path, cwd, flavour=flavour) == shown


@needs_links
def test_links_are_followed_to_the_real_place(tmp_path: Path):
    root = tmp_path.resolve()
    (root / "real").mkdir()
    (root / "link").symlink_to(root / "real")
    assert resolve_path(str(root / "link" / "new" / "file.txt")) == str(root / "real" / "new" / "file.txt")


@needs_links
def test_a_link_to_a_file_that_does_not_exist_yet_leads_to_where_it_would_be(tmp_path: Path):
    outside = tmp_path.resolve() / "outside" / "secret"
    inside = tmp_path.resolve() / "project"
    inside.mkdir()
    (inside / "innocent").symlink_to(outside)
    assert resolve_path(str(inside / "innocent")) == str(outside)
    assert not is_within(resolve_path(str(inside / "innocent")), [str(inside)])


@needs_links
def test_links_in_a_circle_are_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(WorkspaceError, match="circle"):
        resolve_path(str(tmp_path / "a"))


def test_a_path_through_a_file_is_kept_as_it_is(tmp_path: Path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    path = str(tmp_path.resolve() / "file" / "below")
    assert resolve_path(path) == path


def test_the_folder_of_this_test_resolves_to_an_absolute_path():
    assert Path(resolve_path(__file__)).is_absolute()


@pytest.mark.parametrize("name", ["n" * 300, "folder/" * 2_000 + "x"])
def test_a_path_that_is_too_long_for_the_system_is_refused_in_a_short_sentence(tmp_path: Path, name: str):
    with pytest.raises(PathUnusableError, match="longer than") as refused:
        resolve_path(str(tmp_path / name))
    assert len(str(refused.value)) < 250
