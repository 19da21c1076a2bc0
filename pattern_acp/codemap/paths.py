"""Paths and names as people write them in a question.

Owns: telling a path from a name, the parts of both, and which files are named after which. Must not know: the index.
"""

import re

from pattern_acp.codemap.naming import fold

_QUALIFIER = re.compile(r"::|->|[.#]")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9+]{0,5}$")
_TEST_MARKS = re.compile(r"^(?:[Tt]ests?|spec)(?=[_.\-A-Z])|[_.\-](?:test|tests|spec)$|(?<=[a-z0-9])(?:Tests?|Spec)$")
_CODE_ENDINGS = frozenset(
    {
        "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rs", "java", "c", "h", "cc", "cpp",
        "cxx", "hpp", "hh", "rb", "php", "cs", "sh", "bash", "kt", "lua", "swift", "scala", "md", "toml", "json",
        "yaml", "yml", "html", "css", "sql", "txt", "vue", "svelte",
    }
)  # fmt: skip


def base_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def folder_of(path: str) -> str:
    """The folder of a path with its final slash; "" at the top."""
    return path[: path.rfind("/") + 1]


def stem_of(path: str, *, whole: bool = False) -> tuple[str, ...]:
    """The name without its ending; with `whole`, the folders before it, too.

    What a file like `__init__.py`, `index.ts`, `mod.rs` is called after is its folder.
    """
    folders, _, base = path.rpartition("/")
    stem = _ENDING.sub("", base)
    around = tuple(part for part in folders.split("/") if part)
    if stem in {"__init__", "index", "mod"} and around:
        around, stem = around[:-1], around[-1]
    return (*around, stem) if whole else (stem,)


def is_path_like(text: str) -> bool:
    """Whether a text is meant as a path: it has a slash, or ends like a source file."""
    ending = _ENDING.search(text.strip())
    return "/" in text or (ending is not None and ending[0][1:].lower() in _CODE_ENDINGS)


def qualified_parts(text: str) -> list[str]:
    """The parts of `a.b`, `A::b`, `A#b` or `a->b`; call brackets behind it are left out."""
    name = re.sub(r"\(.*\)$", "", text.strip(), flags=re.DOTALL)
    return [part for part in _QUALIFIER.split(name) if part]


def name_under_test(path: str) -> str:
    """What a test file is named after, folded: `writer` for `test_writer.py`; "" when its name says nothing."""
    stem = _ENDING.sub("", base_of(path))
    rest = _TEST_MARKS.sub("", stem)
    return fold(rest) if rest != stem else ""
