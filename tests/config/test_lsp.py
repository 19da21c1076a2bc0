from pathlib import Path

from pattern_acp.config.load import load
from pattern_acp.config.programs import can_serve
from pattern_acp.config.settings import Flags, LspServerSettings


def loaded(tmp_path: Path, own: str, project: str = ""):
    home, folder = tmp_path / "home", tmp_path / "project"
    (home / "config").mkdir(parents=True)
    (folder / ".pattern").mkdir(parents=True)
    (folder / ".pattern" / "config.toml").write_text(project, encoding="utf-8")
    first = load(Flags(), {"PATTERN_ACP_HOME": str(home)}, project_dir=None)
    first.paths.config_file.parent.mkdir(parents=True, exist_ok=True)
    first.paths.config_file.write_text(own, encoding="utf-8")
    return load(Flags(), {"PATTERN_ACP_HOME": str(home)}, project_dir=str(folder))


def test_servers_of_the_persons_file_come_with_their_languages(tmp_path: Path):
    text = '[lsp]\nwait_seconds = 1\n[lsp.zls]\ncommand = ["zls", "-x"]\nlanguages = ["zig"]\n'
    found = loaded(tmp_path, text)
    assert found.settings.lsp.servers == (LspServerSettings("zls", ("zls", "-x"), ("zig",)),)
    assert (found.settings.lsp.mode, found.settings.lsp.wait_seconds) == ("on", 1)
    assert found.problems == ()
    assert next(value for value in found.values if value.key == "lsp.zls").shown == "zls -x"


def test_a_server_without_languages_is_no_mistake(tmp_path: Path):
    found = loaded(tmp_path, '[lsp.zls]\ncommand = ["zls"]\n')
    assert found.settings.lsp.servers == (LspServerSettings("zls", ("zls",), ()),)
    assert found.problems == ()


def test_the_short_form_turns_all_off(tmp_path: Path):
    for number, text in enumerate(('lsp = "off"\n', "lsp = false\n", '[lsp]\nmode = "off"\n')):
        found = loaded(tmp_path / str(number), text)
        assert (found.settings.lsp.mode, found.problems) == ("off", ())
    found = loaded(tmp_path / "odd", 'lsp = "sometimes"\n')
    assert found.settings.lsp.mode == "on"
    assert 'it must be one of on, off, not "sometimes"' in str(found.problems[0])


def test_a_project_may_turn_servers_off_and_sets_up_none(tmp_path: Path):
    found = loaded(tmp_path / "a", "", 'lsp = "off"\n')
    assert found.settings.lsp.mode == "off"
    found = loaded(tmp_path / "b", 'lsp = "off"\n', '[lsp]\nmode = "on"\n[lsp.own]\ncommand = ["./run"]\n')
    assert (found.settings.lsp.mode, found.settings.lsp.servers) == ("off", ())
    sentences = " ".join(str(problem) for problem in found.problems)
    assert "a project may not set up language servers" in sentences
    assert "may not choose one that may do more" in sentences


def test_what_cannot_be_used_is_named_and_left_out(tmp_path: Path):
    text = (
        "[lsp]\nwait = 3\n[lsp.a]\ncommand = 'a'\n[lsp.b]\nlanguages = ['x']\n[lsp.c]\ncommand = ['c']\nargs = []\n"
        "[lsp.d]\ncommand = []\n"
    )
    found = loaded(tmp_path, text)
    assert found.settings.lsp.servers == ()
    keys = [problem.key for problem in found.problems]
    assert keys == ["lsp.wait", "lsp.a.command", "lsp.b", "lsp.c.args", "lsp.d.command"]


def test_what_servers_would_run_of_a_project_is_part_of_what_is_trusted(tmp_path: Path):
    folder = tmp_path / "project"
    program = folder / "node_modules" / ".bin" / "typescript-language-server"
    program.parent.mkdir(parents=True)
    program.write_text("one", encoding="utf-8")
    (folder / "Cargo.toml").write_text("", encoding="utf-8")
    environ = {"PATTERN_ACP_HOME": str(tmp_path / "home")}
    first = load(Flags(), environ, project_dir=str(folder)).offer.parts
    assert [part.name for part in first] == ["node_modules/.bin/typescript-language-server", "rust-analyzer"]
    program.write_text("two", encoding="utf-8")
    (folder / "build.rs").write_text("fn main() {}", encoding="utf-8")
    second = load(Flags(), environ, project_dir=str(folder)).offer.parts
    assert all(before.digest != after.digest for before, after in zip(first, second, strict=True))
    (folder / ".pattern").mkdir()
    (folder / ".pattern" / "config.toml").write_text('lsp = "off"\n', encoding="utf-8")
    assert load(Flags(), environ, project_dir=str(folder)).offer.parts == ()


def test_a_tsc_counts_as_a_server_only_in_versions_that_serve(tmp_path: Path):
    program = tmp_path / "node_modules" / ".bin" / "tsc"
    program.parent.mkdir(parents=True)
    program.write_text("#!/usr/bin/env node\n", encoding="utf-8")
    assert can_serve(tmp_path / "node_modules" / ".bin" / "gopls")
    assert not can_serve(program)
    library = tmp_path / "node_modules" / "lib"
    library.mkdir()
    library.joinpath("getExePath.js").touch()
    assert can_serve(program)
