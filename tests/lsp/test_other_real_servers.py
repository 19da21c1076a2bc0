"""The same way through servers that may be installed or not: what an edit broke, definitions, renaming.

docs/how-to/lsp.md says with which versions this was last run.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pattern_acp.config.settings import LspServerSettings, LspSettings
from pattern_acp.lsp.model import KNOWN, Span, find_program
from tests.support.language_servers import language_servers
from tests.support.programs import problem_of

TOOLS = ("node", "tsc", "typescript-language-server", "clangd", "gopls", "go", "rust-analyzer", "cargo")
PATH = ":".join(dict.fromkeys(str(Path(found).parent) for name in TOOLS if (found := shutil.which(name)))) + ":/bin"


@dataclass(frozen=True)
class Project:
    """A project whose function `twice` is called with a wrong argument, and with an emoji before it, in `added`."""

    file: str
    before: str
    added: str
    defined_in: str
    others: dict[str, str] = field(default_factory=dict[str, str])


SCRIPT = Project(
    "src/app.ts",
    'import { twice } from "./util";\n\nconst old: number = "old";\n',
    'const fresh = "😀" + twice("a");\n',
    "src/util.ts",
    {
        "tsconfig.json": '{"compilerOptions": {"strict": true}, "include": ["src"]}',
        "src/util.ts": "export function twice(value: number): number {\n  return 2 * value;\n}\n",
    },
)
PROJECTS = {
    "typescript": SCRIPT,
    "typescript-language-server": SCRIPT,
    "clangd": Project(
        "main.c",
        'static int twice(int value) {\n    return 2 * value;\n}\n\nint old = "old" / 2;\n',
        "struct s { int a; } s;\nint main(void) { /* 😀 */ return twice(s); }\n",
        "main.c",
    ),
    "gopls": Project(
        "main.go",
        'package main\n\nfunc twice(value int) int {\n\treturn 2 * value\n}\n\nvar old int = "old"\n\n',
        'func main() {\n\tprintln("😀", twice("a"))\n}\n',
        "main.go",
        {"go.mod": "module example\n\ngo 1.19\n"},
    ),
    "rust-analyzer": Project(
        "src/main.rs",
        "fn twice(value: i32) -> i32 {\n    2 * value\n}\n\n",
        'fn main() {\n    println!("😀 {}", twice("a"));\n}\n',
        "src/main.rs",
        {"Cargo.toml": '[package]\nname = "example"\nversion = "0.1.0"\nedition = "2021"\n'},
    ),
}


NEEDED = {"gopls": ("go",), "rust-analyzer": ("cargo",)}
"""What a server runs to understand a project."""


def is_installed(name: str, home: Path) -> bool:
    (kind,) = (kind for kind in KNOWN if kind.name == name)
    program = find_program(kind, "/", {"PATH": PATH}, trusted=True)
    # It cannot use a TypeScript that serves by itself.
    if not program or (name == "typescript-language-server" and is_installed("typescript", home)):
        return False
    return not problem_of(program, *NEEDED.get(name, ()), environment={"PATH": PATH, "HOME": str(home)})


def only(name: str) -> LspSettings:
    """Settings with one known server; the others are not used."""
    others = tuple(LspServerSettings(kind.name, kind.command, ()) for kind in KNOWN if kind.name != name)
    return LspSettings(wait_seconds=40, servers=others)


@pytest.mark.e2e
@pytest.mark.parametrize("name", PROJECTS)
async def test_a_server_tells_what_an_edit_broke_and_renames_in_all_files(name: str, tmp_path: Path):
    # A home as `language_servers` gives it: stand-ins of rustup look there for what they stand for.
    if not is_installed(name, tmp_path / ".home"):
        pytest.skip(f"{name} is not installed")
    project = PROJECTS[name]
    for file, text in {**project.others, project.file: project.before}.items():
        tmp_path.joinpath(file).parent.mkdir(exist_ok=True)
        tmp_path.joinpath(file).write_text(text, encoding="utf-8")
    path, after = tmp_path / project.file, project.before + project.added
    line = next(at for at, text in enumerate(after.split("\n")) if "😀" in text)
    unit = len(after.split("\n")[line].partition("twice")[0].encode("utf-16-le")) // 2
    async with language_servers(tmp_path, only(name), trusted=True, path=PATH) as servers:
        await servers.note_before(str(path), project.before)
        path.write_text(after, encoding="utf-8")
        found = await servers.introduced({str(path): after})
        assert [(Path(error.path).name, error.line) for error in found.errors] == [(path.name, line + 1)]
        at = Span(line, unit, line, unit + 5)
        assert [place.path for place in await servers.definition(str(path), after, at)] == [
            str(tmp_path / project.defined_in)
        ]
        places = await servers.references(str(path), after, at)
        renamed = await servers.rename(str(path), after, at, "doubled")
        assert {edits.path for edits in renamed} == {place.path for place in places}
        assert sum(len(edits.edits) for edits in renamed) == len(places)


def test_a_tsc_that_cannot_serve_is_not_taken_for_a_server(tmp_path: Path):
    program = tmp_path / "node_modules" / "typescript" / "bin" / "tsc"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    (kind,) = (kind for kind in KNOWN if kind.name == "typescript")
    environment = {"PATH": str(program.parent)}
    assert find_program(kind, "/nowhere", environment, trusted=False) == ""
    library = program.parent.parent / "lib"
    library.mkdir()
    library.joinpath("getExePath.js").touch()
    assert find_program(kind, "/nowhere", environment, trusted=False) == str(program)
