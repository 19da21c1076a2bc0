"""Which file an import means, language by language; and that a guess is none."""

from collections.abc import Sequence

import pytest

from pattern_acp.codemap.recording import names_meaning, resolve, tail_of


class Files:
    """`Workspace` over a list of paths; the text of a manifest stands behind its path."""

    def __init__(self, *paths: str, **manifests: str) -> None:
        self._paths = set(paths)
        self._manifests = {name.replace("_", "."): content for name, content in manifests.items()}

    def has(self, path: str) -> bool:
        return path in self._paths

    def has_folder(self, path: str) -> bool:
        return any(known.startswith(f"{path}/") for known in self._paths)

    def called(self, base_name: str) -> Sequence[str]:
        return sorted(path for path in self._paths if path.rpartition("/")[2].lower() == base_name.lower())

    def text(self, path: str) -> str:
        return self._manifests.get(path.rpartition("/")[2], "")


PYTHON = Files(
    "pkg/__init__.py", "pkg/a.py", "pkg/json.py", "pkg/sub/__init__.py", "pkg/sub/b.py", "pkg/typed.pyi",
    "src/lib/__init__.py", "src/lib/c.py", "tests/test_a.py", "tests/common.py", "space/d.py",
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "module", "name", "expected"),
    [
        ("pkg/sub/b.py", ".", "x", "pkg/sub/__init__.py"),
        ("pkg/sub/b.py", "..", "a", "pkg/a.py"),
        ("pkg/sub/b.py", "..a", "thing", "pkg/a.py"),
        ("pkg/sub/b.py", "....a", "thing", None),
        ("pkg/sub/b.py", "pkg.a", "thing", "pkg/a.py"),
        ("pkg/sub/b.py", "pkg", "sub", "pkg/sub/__init__.py"),
        ("pkg/sub/b.py", "pkg.sub", "b", "pkg/sub/b.py"),
        ("pkg/sub/b.py", "pkg.sub", "*", "pkg/sub/__init__.py"),
        ("pkg/a.py", "pkg.typed", "", "pkg/typed.pyi"),
        ("pkg/a.py", "pkg.missing", "", None),
        ("pkg/a.py", "json", "", None),
        ("pkg/a.py", "a", "", None),
        ("tests/test_a.py", "lib.c", "", "src/lib/c.py"),
        ("tests/test_a.py", "common", "x", "tests/common.py"),
        ("tests/test_a.py", "space.d", "x", "space/d.py"),
        ("tests/test_a.py", "numpy", "x", None),
    ],
)
def test_python(path: str, module: str, name: str, expected: str | None):
    assert resolve("python", path, module, name, PYTHON) == expected


SCRIPTS = Files("src/a.ts", "src/b.tsx", "src/c/index.js", "src/d.d.ts", "src/e.js", "data.json", "a.vue")


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("./b", "src/b.tsx"),
        ("./b.jsx", "src/b.tsx"),
        ("./e.js", "src/e.js"),
        ("./c", "src/c/index.js"),
        ("./d", "src/d.d.ts"),
        ("../data.json", "data.json"),
        ("../a.vue", "a.vue"),
        ("../../a", None),
        ("react", None),
        ("@/b", None),
    ],
)
def test_scripts(module: str, expected: str | None):
    assert resolve("typescript", "src/a.ts", module, "x", SCRIPTS) == expected


GO = Files(
    "svc/go.mod", "svc/main.go", "svc/api/v1/a.go", "other/b.go", go_mod="// x\nmodule example.org/svc\n\ngo 1.22\n"
)


@pytest.mark.parametrize(
    ("path", "module", "expected"),
    [
        ("svc/main.go", "example.org/svc/api/v1", "svc/api/v1/"),
        ("svc/api/v1/a.go", "example.org/svc", "svc/"),
        ("svc/main.go", "example.org/svc/none", None),
        ("svc/main.go", "example.org/svcother", None),
        ("svc/main.go", "fmt", None),
        ("other/b.go", "example.org/svc", None),
    ],
)
def test_go(path: str, module: str, expected: str | None):
    assert resolve("go", path, module, "", GO) == expected


def test_go_at_the_root():
    files = Files("go.mod", "main.go", go_mod="module m\n")
    assert resolve("go", "main.go", "m", "", files) == "./"


RUST = Files(
    "Cargo.toml", "src/lib.rs", "src/a.rs", "src/a/b.rs", "src/c/mod.rs", "src/c/d.rs", "tests/t.rs", "x/y.rs",
    Cargo_toml='[package]\nversion = "1"\nname = "my-crate"\n',
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "module", "name", "expected"),
    [
        ("src/lib.rs", "mod::a", "", "src/a.rs"),
        ("src/a.rs", "mod::b", "", "src/a/b.rs"),
        ("src/c/mod.rs", "mod::d", "", "src/c/d.rs"),
        ("src/lib.rs", "mod::none", "", None),
        ("src/c/d.rs", "crate::a::b", "Thing", "src/a/b.rs"),
        ("src/c/d.rs", "crate::a", "b", "src/a/b.rs"),
        ("src/c/d.rs", "crate", "Thing", "src/lib.rs"),
        ("src/c/d.rs", "super", "Thing", "src/c/mod.rs"),
        ("src/c/d.rs", "super::super::a", "*", "src/a.rs"),
        ("src/a.rs", "self::b", "Thing", "src/a/b.rs"),
        ("src/a.rs", "b", "Thing", "src/a/b.rs"),
        ("src/a.rs", "std::io", "Read", None),
        ("tests/t.rs", "my_crate::a", "Thing", "src/a.rs"),
        ("tests/t.rs", "other::a", "Thing", None),
    ],
)
def test_rust(path: str, module: str, name: str, expected: str | None):
    assert resolve("rust", path, module, name, RUST) == expected


JAVA = Files("app/src/main/java/a/b/C.java", "app/src/main/java/a/b/D.java", "one/a/E.java", "two/a/E.java")


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("a.b", "C", "app/src/main/java/a/b/C.java"),
        ("a.b.C", "constant", "app/src/main/java/a/b/C.java"),
        ("a.b.C", "*", "app/src/main/java/a/b/C.java"),
        ("a.b", "*", None),
        ("a", "E", None),
        ("java.util", "List", None),
    ],
)
def test_java(module: str, name: str, expected: str | None):
    assert resolve("java", "app/src/main/java/a/b/D.java", module, name, JAVA) == expected


C = Files("src/a.c", "src/a.h", "include/lib/b.h", "one/c.h", "two/c.h", "include/string.h")


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("a.h", "src/a.h"),
        ("lib/b.h", "include/lib/b.h"),
        ("<lib/b.h>", "include/lib/b.h"),
        ("../one/c.h", "one/c.h"),
        ("../none/c.h", None),
        ("c.h", None),
        ("<string.h>", None),
    ],
)
def test_c(module: str, expected: str | None):
    assert resolve("c", "src/a.c", module, "*", C) == expected
    assert resolve("cpp", "src/a.c", module, "*", C) == expected


OTHERS = Files("lib/a/b.rb", "app/c.rb", "src/Model/User.php", "src/x.php", "bin/common.sh", "bin/run.sh", "lib.sh")


@pytest.mark.parametrize(
    ("language", "path", "module", "name", "expected"),
    [
        ("ruby", "app/d.rb", "./c", "*", "app/c.rb"),
        ("ruby", "app/d.rb", "a/b", "*", "lib/a/b.rb"),
        ("ruby", "app/d.rb", "json", "*", None),
        ("php", "src/y.php", "App\\Model", "User", "src/Model/User.php"),
        ("php", "src/y.php", "App\\Other", "User", None),
        ("php", "src/y.php", "./x.php", "*", "src/x.php"),
        ("bash", "bin/run.sh", "./common.sh", "*", "bin/common.sh"),
        ("bash", "bin/run.sh", "lib.sh", "*", "lib.sh"),
        ("bash", "bin/run.sh", "/etc/profile", "*", None),
        ("csharp", "a.cs", "System.IO", "*", None),
    ],
)
def test_others(language: str, path: str, module: str, name: str, expected: str | None):
    assert resolve(language, path, module, name, OTHERS) == expected


@pytest.mark.parametrize(
    ("module", "tail"),
    [
        ("a.b.c", "c"),
        ("..", ""),
        (".Mod", "mod"),
        ("./x/Y.js", "y"),
        ("<b/c.h>", "c"),
        ("a.h", "a"),
        ("crate::a::B", "b"),
        ("App\\Model", "model"),
        ("example.org/x.y/z", "z"),
    ],
)
def test_the_tail_is_what_a_file_must_be_called(module: str, tail: str):
    assert tail_of(module) == tail


@pytest.mark.parametrize(("language", "path", "module", "name", "expected"), [
    ("python", "pkg/sub/b.py", "pkg", "sub", "pkg/sub/__init__.py"),
    ("typescript", "src/a.ts", "./c", "x", "src/c/index.js"),
    ("java", "z/D.java", "a.b", "C", "app/src/main/java/a/b/C.java"),
    ("go", "svc/main.go", "example.org/svc/api/v1", "", "svc/api/v1/a.go"),
])  # fmt: skip
def test_what_an_import_means_is_found_by_its_tail_or_name_when_the_file_comes(
    language: str, path: str, module: str, name: str, expected: str
):
    assert {tail_of(module), name.lower()} & set(names_meaning(expected))
