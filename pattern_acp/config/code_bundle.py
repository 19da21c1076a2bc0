"""The code of all modules of a start, in one file (docs/adr/0050-one-file-of-code.md).

Owns: this file, when it counts, and writing it. Must not know: which modules a start needs. It lies among Python's own
files of compiled code, and anyone who could change it could change those.
"""

# ruff: noqa: PTH105, PTH109, PTH116, PTH118, PTH120, S302 - pathlib is not loaded yet, and see above

import marshal
import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType, ModuleType
from typing import cast

ENOUGH_MISSING = 10
"""One of so many modules that did not come out of the file is worth writing it again."""

_DAMAGE = (OSError, EOFError, ValueError, TypeError)

_Entry = tuple[str, str, bool, int, int, int, int]
"""Source, Python's own file of its code, whether it is a package, its time (ns) and size, place and length here."""


class CodeBundle:
    """A finder of modules whose source is as it was when the file was written; Python finds the others.

    Args:
        path: of the file.
        folder: the current one, where nothing is looked for.
    """

    def __init__(self, path: str, folder: str) -> None:
        self._path = path
        self._folders = [each for each in sys.path if each not in {"", folder}]
        self._before = frozenset(sys.modules)
        self._descriptor = -1
        self._index: dict[str, _Entry] = {}
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return
        try:
            size = int.from_bytes(os.pread(descriptor, 8, 0))
            key, length, index = cast(
                "tuple[object, int, dict[str, _Entry]]", marshal.loads(os.pread(descriptor, size, 8))
            )
            if key == self._key() and length == os.fstat(descriptor).st_size - size - 8:
                self._descriptor, self._index = os.dup(descriptor), index
                self._start = size + 8
        except _DAMAGE:
            return
        finally:
            os.close(descriptor)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        del path, target
        entry = self._index.get(name)
        if entry is None or _state(entry[0]) != entry[3:5]:
            return None
        source, cached, is_package = entry[:3]
        spec = ModuleSpec(name, _Loader(name, source, self, entry), origin=source, is_package=is_package)
        spec.has_location = True
        spec.cached = cached
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(source)]
        return spec

    def read(self, entry: _Entry) -> bytes:
        """The code of a module, marshalled."""
        return os.pread(self._descriptor, entry[6], self._start + entry[5])

    def renew(self) -> None:
        """Write the file again if much of what is loaded did not come out of it. Takes 0.3 s, for a worker thread."""
        specs = {name: spec for name, module in list(sys.modules.items()) if (spec := self._spec_of(name, module))}
        missing = sum(not isinstance(spec.loader, _Loader) for spec in specs.values())
        if sys.dont_write_bytecode or missing * ENOUGH_MISSING < len(specs):
            return
        parts: list[bytes] = []
        index: dict[str, _Entry] = {}
        at = 0
        for name, (source, cached, is_package, state, code) in self._all(specs).items():
            index[name] = (source, cached, is_package, *state, at, len(code))
            parts.append(code)
            at += len(code)
        head = marshal.dumps(cast("tuple[bytes]", (self._key(), at, index)))
        partial = f"{self._path}.{os.getpid()}.tmp"
        try:
            with open(partial, "xb") as file:
                file.writelines((len(head).to_bytes(8), head, *parts))
            os.replace(partial, self._path)
        except OSError:
            # A folder of the system's: Python writes nothing there either.
            return

    def _all(self, specs: Mapping[str, ModuleSpec]) -> dict[str, tuple[str, str, bool, tuple[int, int], bytes]]:
        """Return what is in the file and still as it was, and what is loaded."""
        found: dict[str, tuple[str, str, bool, tuple[int, int], bytes]] = {}
        for name, entry in self._index.items():
            if name not in specs and _state(entry[0]) == entry[3:5]:
                found[name] = (*entry[:3], entry[3:5], self.read(entry))
        for name, spec in specs.items():
            source, loader = cast("str", spec.origin), cast("SourceFileLoader", spec.loader)
            state, code = _state(source), loader.get_code(name)
            if state is not None and code is not None:
                is_package = spec.submodule_search_locations is not None
                found[name] = (source, spec.cached or "", is_package, state, marshal.dumps(code))
        return found

    def _spec_of(self, name: str, module: ModuleType) -> ModuleSpec | None:
        spec: ModuleSpec | None = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or name in self._before or not spec.origin or not spec.cached:
            return None
        return spec if type(spec.loader) in {SourceFileLoader, _Loader} else None

    def _key(self) -> tuple[bytes, str, int, tuple[tuple[str, tuple[int, int] | None], ...]]:
        """Return what a file has to agree with: the interpreter, and folders in which no module came or went."""
        folders = tuple((each, _state(each)) for each in self._folders)
        return (MAGIC_NUMBER, sys.version, sys.flags.optimize, folders)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, source: str, bundle: CodeBundle, entry: _Entry) -> None:
        super().__init__(name, source)
        self._bundle = bundle
        self._entry = entry

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            code: object = marshal.loads(self._bundle.read(self._entry))
        except _DAMAGE:
            code = None
        return code if isinstance(code, CodeType) else super().get_code(fullname)


def _state(path: str) -> tuple[int, int] | None:
    """The time of the last change, in ns, and the size of a file; None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size)


_bundles: list[CodeBundle] = []


def use_bundle() -> None:
    """Take modules out of the file from now on, where there is one and the system can read pieces of a file."""
    if not hasattr(os, "pread") or PathFinder not in sys.meta_path:
        return
    path = cache_from_source(os.path.join(os.path.dirname(os.path.dirname(__file__)), "start.py"))
    _bundles.append(CodeBundle(path, os.getcwd()))
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _bundles[-1])


def renew_bundle() -> None:
    """Write the file that `use_bundle` looked for, where that pays. Blocking, for a worker thread."""
    for bundle in _bundles:
        bundle.renew()
