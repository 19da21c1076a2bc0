"""The code of all modules of a start, in one file (docs/adr/0050-one-file-of-code.md).

Owns: this file, when it counts, and writing it. Must not know: which modules a start needs. It lies among Python's own
files of compiled code, and anyone who could change it could change those.
"""

# ruff: noqa: PTH105, PTH107, PTH109, PTH116, PTH117, PTH118, PTH120, PTH208, S302 - pathlib is not loaded yet

import marshal
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from types import CodeType, ModuleType
from typing import cast

ENOUGH_MISSING = 10
"""One of so many modules that did not come out of the file is worth writing it again."""

FILES = 4
"""The newest so many files stay: environments that share the folder have one each."""

_DAMAGE = (OSError, EOFError, ValueError, TypeError, OverflowError, MemoryError, SystemError)

_Entry = tuple[str, str, bool, int, int, int, int]
"""Source, Python's own file of its code, whether it is a package, its time (ns) and size, place and length here."""


class CodeBundle:
    """A finder of modules whose source is as it was when the file was written; Python finds the others.

    Args:
        stem: path of the file up to the hash of what it has to agree with.
    """

    def __init__(self, stem: str) -> None:
        self._folders = tuple(sys.path)
        self._key = self._key_now()
        self._stem = f"{stem}-"
        self._path = f"{self._stem}{source_hash(repr(self._key).encode()).hex()}.pyc"
        self._before = frozenset(sys.modules)
        self._descriptor = -1
        self._index: dict[str, _Entry] = {}
        with suppress(*_DAMAGE), open(self._path, "rb") as file:
            whole, size, known = os.fstat(file.fileno()).st_size, int.from_bytes(file.read(8)), file.read(8)
            head = file.read(min(size, whole))
            if source_hash(head) == known:
                self._start = 16 + size
                key, length, index = cast("tuple[object, int, dict[str, _Entry]]", marshal.loads(head))
                if key == self._key and length == whole - self._start:
                    self._descriptor, self._index = os.dup(file.fileno()), index

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
        if sys.dont_write_bytecode or missing * ENOUGH_MISSING < len(specs) or self._key_now() != self._key:
            return
        partial = f"{self._path}.{os.getpid()}.tmp"
        try:
            # Opened first: in a folder of the system's, where Python writes nothing either, there is no more to do.
            with open(partial, "xb") as file:
                file.writelines(self._parts(specs))
            os.replace(partial, self._path)
            self._remove_older()
        except OSError:
            with suppress(OSError):
                os.remove(partial)

    def _parts(self, specs: Mapping[str, ModuleSpec]) -> Iterator[bytes]:
        parts: list[bytes] = []
        index: dict[str, _Entry] = {}
        at = 0
        for name, source, code in self._all(specs):
            index[name] = (*source, at, len(code))
            parts.append(code)
            at += len(code)
        head = marshal.dumps(cast("tuple[bytes]", (self._key, at, index)))
        yield from (len(head).to_bytes(8), source_hash(head), head, *parts)

    def _all(self, specs: Mapping[str, ModuleSpec]) -> Iterator[tuple[str, tuple[str, str, bool, int, int], bytes]]:
        """Return what is in the file and still as it was, and what is loaded, with the code of the present source."""
        for name, entry in self._index.items():
            if name not in specs and _state(entry[0]) == entry[3:5]:
                yield name, entry[:5], self.read(entry)
        for name, spec in specs.items():
            source, loader = cast("str", spec.origin), cast("SourceFileLoader", spec.loader)
            state = _state(source)
            if state is None or (isinstance(loader, _Loader) and loader.entry[3:5] != state):
                continue
            # Without code, an update is at work.
            with suppress(OSError, SyntaxError, ValueError):
                code = marshal.dumps(cast("CodeType", loader.get_code(name)))
                if _state(source) == state:
                    yield name, (source, spec.cached or "", bool(spec.submodule_search_locations), *state), code

    def _remove_older(self) -> None:
        folder, stem = os.path.split(self._stem)
        files = [os.path.join(folder, each) for each in os.listdir(folder) if each.startswith(stem)]
        for each in sorted(files, key=lambda file: _state(file) or (0, 0))[:-FILES]:
            os.remove(each)

    def _spec_of(self, name: str, module: ModuleType) -> ModuleSpec | None:
        spec: ModuleSpec | None = getattr(module, "__spec__", None)
        if spec is None or spec.name != name or name in self._before or not spec.cached:
            return None
        # A module that was found in another way could be another one at the next start.
        file = name.replace(".", os.sep) + (f"{os.sep}__init__.py" if spec.submodule_search_locations else ".py")
        is_of_path = any(spec.origin == os.path.join(each, file) for each in self._folders)
        return spec if is_of_path and type(spec.loader) in {SourceFileLoader, _Loader} else None

    def _key_now(self) -> tuple[bytes, str, int, tuple[tuple[str, tuple[int, int] | None], ...]]:
        """Return what a file has to agree with: the interpreter, and folders in which no module came or went."""
        folders = tuple((each, _state(each)) for each in self._folders)
        return (MAGIC_NUMBER, sys.version, sys.flags.optimize, folders)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, source: str, bundle: CodeBundle, entry: _Entry) -> None:
        super().__init__(name, source)
        self._bundle = bundle
        self.entry = entry

    def get_code(self, fullname: str) -> CodeType | None:
        with suppress(*_DAMAGE):
            if isinstance(code := marshal.loads(self._bundle.read(self.entry)), CodeType):
                return code
        return super().get_code(fullname)


def _state(path: str) -> tuple[int, int] | None:
    """The time of the last change, in ns, and the size of a file; None without one."""
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return (found.st_mtime_ns, found.st_size)
    return None


_bundles: list[CodeBundle] = []


def use_bundle() -> None:
    """Take modules out of the file from now on, where there is one and the system can read pieces of a file.

    Not where Python looks into the current folder: what it finds there changes from project to project.
    """
    if not hasattr(os, "pread") or PathFinder not in sys.meta_path:
        return
    try:
        current = os.getcwd()
        if any(not os.path.isabs(each) or os.path.realpath(each) == current for each in sys.path):
            return
        path = cache_from_source(os.path.join(os.path.dirname(os.path.dirname(__file__)), "start.py"))
        bundle = CodeBundle(path.removesuffix(".pyc"))
    except (OSError, NotImplementedError):
        # The current folder was deleted, or this Python has no files of code.
        return
    _bundles.append(bundle)
    sys.meta_path.insert(sys.meta_path.index(PathFinder), bundle)


def renew_bundle() -> None:
    """Write the file that `use_bundle` looked for, where that pays. Blocking, for a worker thread."""
    for bundle in _bundles:
        bundle.renew()
