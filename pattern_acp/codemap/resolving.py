"""Which file an import means.

Owns: each language's rule, applied only where it leaves no choice: an import whose file would be a guess has none. Must
not know: how paths are stored (`Workspace` is what is asked of them).
"""

import posixpath
import re
import sys
from collections.abc import Callable, Sequence
from typing import Protocol


class Workspace(Protocol):
    """The files of a workspace, by their paths below its root."""

    def has(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        ...

    def has_folder(self, path: str) -> bool:
        """Whether there is a file somewhere below `path`, which has no final slash."""
        ...

    def called(self, base_name: str) -> Sequence[str]:
        """Every file whose last part is `base_name`, whatever the case."""
        ...

    def text(self, path: str) -> str:
        """The beginning of a file, for manifests; "" when it cannot be read."""
        ...


_SCRIPT_ENDINGS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json")
_COMPILED = {".js": (".ts", ".tsx"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
"""What an import of a compiled file is written as in TypeScript's sources."""
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_CARGO_NAME = re.compile(r"^\[package\][^\[]*?^name\s*=\s*\"([^\"]+)\"", re.MULTILINE | re.DOTALL)


def resolve(language: str, path: str, module: str, name: str, workspace: Workspace) -> str | None:
    """The file that `name` of `module` is imported from by the file at `path`; see `model.Import`."""
    resolver = _RESOLVERS.get(language)
    return None if resolver is None else resolver(path, module, name, workspace)


def tail_of(module: str) -> str:
    """The last part of a module without its ending, in lower case: what a file must be called to be meant by it."""
    last = re.split(r"[/\\]|::", module.strip("<>"))[-1]
    if "/" not in module and not module.endswith((".h", ".hpp", ".rb", ".js", ".ts", ".sh", ".php")):
        last = last.rpartition(".")[2]
    return last.partition(".")[0].lower()


def names_meaning(path: str) -> tuple[str, ...]:
    """Every `tail_of` an import, and every imported name in lower case, that can mean the file at `path`."""
    folder, _, base = path.rpartition("/")
    return tuple({base.partition(".")[0].lower(), folder.rpartition("/")[2].lower()})


def _first(workspace: Workspace, *candidates: str) -> str | None:
    return next((path for path in candidates if workspace.has(path)), None)


def _only(paths: Sequence[str]) -> str | None:
    return paths[0] if len(paths) == 1 else None


def _ending_in(workspace: Workspace, suffix: str) -> str | None:
    """The one file whose path is `suffix`, or ends with it behind a slash."""
    found = workspace.called(posixpath.basename(suffix))
    return _only([path for path in found if path == suffix or path.endswith(f"/{suffix}")])


def _beside(path: str, relative: str) -> str:
    """`relative` seen from the folder of `path`; a path above the root begins with `..` and names no file."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), relative))


def _ancestors(path: str) -> list[str]:
    """The folders around a file, nearest first, "" being the root."""
    folders: list[str] = []
    while path:
        path = posixpath.dirname(path)
        folders.append(path)
    return folders


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _python(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    rest = module.lstrip(".")
    dots = len(module) - len(rest)
    parts = rest.replace(".", "/")
    if dots:
        folders = _ancestors(path)
        return _python_file(_join(folders[dots - 1], parts), name, workspace) if dots <= len(folders) else None
    first = rest.partition(".")[0]
    if first in sys.stdlib_module_names:
        return None
    for folder in _ancestors(path):
        if workspace.has(_join(folder, "__init__.py")):
            continue  # inside a package, so nothing is imported from here by an absolute name
        for start in (folder, _join(folder, "src")):
            if workspace.has(_join(start, f"{first}.py")) or workspace.has_folder(_join(start, first)):
                return _python_file(_join(start, parts), name, workspace)
    return None


def _python_file(base: str, name: str, workspace: Workspace) -> str | None:
    candidates = [base] if name in {"", "*"} else [_join(base, name), base]
    for candidate in candidates:
        files = [f"{candidate}.py", f"{candidate}.pyi"] if candidate else []
        packages = [_join(candidate, "__init__.py"), _join(candidate, "__init__.pyi")]
        found = _first(workspace, *packages, *files)
        if found:
            return found
    return None


def _script(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    if not module.startswith((".", "/")):
        return None
    base = _beside(path, module)
    stem, ending = posixpath.splitext(base)
    return _first(
        workspace,
        base,
        *(stem + other for other in _COMPILED.get(ending, ())),
        *(base + other for other in _SCRIPT_ENDINGS),
        *(f"{base}/index{other}" for other in _SCRIPT_ENDINGS),
    )


def _go(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    for folder in _ancestors(path):
        manifest = _join(folder, "go.mod")
        if workspace.has(manifest):
            declared = _GO_MODULE.search(workspace.text(manifest))
            own = declared[1].strip('"') if declared else ""
            if not own or (module != own and not module.startswith(f"{own}/")):
                return None
            target = _join(folder, module[len(own) + 1 :])
            return f"{target or '.'}/" if not target or workspace.has_folder(target) else None
    return None


def _rust(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    root = next(
        (
            folder
            for folder in _ancestors(path)
            if workspace.has(_join(folder, "lib.rs")) or workspace.has(_join(folder, "main.rs"))
        ),
        None,
    )
    below = path if root in {None, ""} else path[len(root or "") + 1 :]
    own = [part for part in below.removesuffix(".rs").split("/") if part not in {"mod", "lib", "main"}]
    folder = root if root is not None else ""
    parts = [part for part in [*module.split("::"), "" if name == "*" else name] if part]
    if parts[0] == "mod":
        return _rust_file(folder, [*own, *parts[1:]], len(own) + 1, workspace)
    if parts[0] in {"crate", "self", "super"} and root is not None:
        start = [] if parts[0] == "crate" else own
        parts = parts[1:] if parts[0] in {"crate", "self"} else parts
        while parts and parts[0] == "super":
            start, parts = start[:-1], parts[1:]
        return _rust_file(folder, [*start, *parts], len(start), workspace)
    if root is not None and (found := _rust_file(folder, [*own, *parts], len(own) + 1, workspace)):
        return found
    return _rust_package(path, parts, workspace)


def _rust_file(root: str, parts: list[str], least: int, workspace: Workspace) -> str | None:
    """The file of the innermost module of `parts` that has one; at least `least` of them must be modules."""
    for count in range(len(parts), max(least, 0) - 1, -1):
        base = _join(root, *parts[:count])
        if count == 0:
            return _first(workspace, _join(root, "lib.rs"), _join(root, "main.rs"))
        if found := _first(workspace, f"{base}.rs", f"{base}/mod.rs"):
            return found
    return None


def _rust_package(path: str, parts: list[str], workspace: Workspace) -> str | None:
    """A path that begins with the name of the package that the file belongs to, as its tests and programs write."""
    for folder in _ancestors(path):
        manifest = _join(folder, "Cargo.toml")
        if workspace.has(manifest):
            declared = _CARGO_NAME.search(workspace.text(manifest))
            if declared and declared[1].replace("-", "_") == parts[0]:
                return _rust_file(_join(folder, "src"), parts[1:], 0, workspace)
            return None
    return None


def _java(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del path
    folder = module.replace(".", "/")
    found = _ending_in(workspace, f"{folder}/{name}.java") if name not in {"", "*"} else None
    return found or _ending_in(workspace, f"{folder}.java")


def _include(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    target = module.strip("<>")
    if module.startswith("<"):
        return _ending_in(workspace, target) if "/" in target else None
    beside = _beside(path, target)
    if workspace.has(beside):
        return beside
    return None if target.startswith("..") else _ending_in(workspace, posixpath.normpath(target))


def _ruby(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    if module.startswith("."):
        beside = _beside(path, module)
        return _first(workspace, f"{beside}.rb", beside)
    return _ending_in(workspace, f"lib/{module.removesuffix('.rb')}.rb")


def _php(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    if name == "*":
        return _first(workspace, _beside(path, module))
    spaces = module.split("\\")
    found = _only(workspace.called(f"{name}.php")) if name else None
    is_like = found is not None and posixpath.basename(posixpath.dirname(found)).lower() == spaces[-1].lower()
    return found if is_like else None


def _bash(path: str, module: str, name: str, workspace: Workspace) -> str | None:
    del name
    return _first(workspace, _beside(path, module), posixpath.normpath(module))


_RESOLVERS: dict[str, Callable[[str, str, str, Workspace], str | None]] = {
    "python": _python,
    "javascript": _script,
    "typescript": _script,
    "tsx": _script,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _include,
    "cpp": _include,
    "ruby": _ruby,
    "php": _php,
    "bash": _bash,
}
