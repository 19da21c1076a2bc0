"""Whether the index still says what is on disk.

Owns: comparing a listing of the workspace with the rows of the index, and when a stamp alone does not prove that a file
is unchanged. Must not know: how files are read into the index or who asks. A file counts as unchanged when its size,
its two times and its identity are those of when it was read, and these times were long enough before the reading;
otherwise its content is compared (the same care that Git takes with its own index).
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from pattern_acp.codemap.indexing import content_hash, read_bytes
from pattern_acp.codemap.languages import language_of
from pattern_acp.codemap.model import Freshness, ListedFile, Stamp
from pattern_acp.db.columns import integer, text
from pattern_acp.db.transaction import Transaction

RACY_NS = 2_000_000_000
"""How long before the reading the last change must lie for the stamp to be trusted: the coarsest times of a file
system in use (FAT), which also covers clocks of servers that are a little off."""

_MOST_COMPARED = 500
"""Files whose content is compared at one time; the rest counts as changed, and is read anew."""


class KnownFile(Struct, frozen=True):
    """What the index knows of a file that matters here."""

    stamp: Stamp
    read_ns: int
    content_hash: str
    status: str
    language: str


class Difference(Struct, frozen=True):
    """How the workspace differs from the index; paths in order."""

    listed: int
    sources: int
    """Listed files of a language that can be read."""
    added: tuple[str, ...]
    """Listed, but not in the index at all."""
    removed: tuple[str, ...]
    """In the index, but not listed."""
    unread: tuple[str, ...]
    """In the index by name only."""
    changed: tuple[str, ...]
    """Differ from what was read."""
    confirmed: tuple[tuple[str, Stamp], ...]
    """Unchanged by their content, while their stamps did not prove it."""

    @property
    def to_read(self) -> tuple[str, ...]:
        """Files that a build has to read: what is no source is only listed."""
        return (*(path for path in self.added if language_of(path)), *self.unread, *self.changed)

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Every path of the difference, in order."""
        return tuple(sorted((*self.added, *self.removed, *self.unread, *self.changed)))


def known_files(tx: Transaction) -> dict[str, KnownFile]:
    """Every file of the index."""
    rows = tx.all("SELECT path, size, mtime_ns, ctime_ns, inode, read_ns, content_hash, status, language FROM files")
    return {
        text(row[0]): KnownFile(
            Stamp(integer(row[1]), integer(row[2]), integer(row[3]), integer(row[4])),
            integer(row[5]),
            text(row[6]),
            text(row[7]),
            text(row[8]),
        )
        for row in rows
    }


def compare(
    root: str, listing: Sequence[ListedFile], known: Mapping[str, KnownFile], absent: Mapping[str, str]
) -> Difference:
    """How `listing`, a listing of `root`, differs from what is `known`. Reads files whose stamps prove nothing.

    `absent` has the languages whose grammar is not installed; files that waited for one that is now are to be read.
    """
    added: list[str] = []
    unread: list[str] = []
    suspects: list[tuple[ListedFile, KnownFile]] = []
    sources = 0
    for file in listing:
        row = known.get(file.path)
        if row is None:
            added.append(file.path)
            sources += bool(language_of(file.path))
            continue
        if row.status == "listed":
            continue
        sources += 1
        if row.status == "pending" or (row.status == "no_grammar" and row.language not in absent):
            unread.append(file.path)
        elif row.stamp != file.stamp or max(row.stamp.mtime_ns, row.stamp.ctime_ns) > row.read_ns - RACY_NS:
            suspects.append((file, row))
    changed, confirmed = _compare_contents(root, suspects)
    present = {file.path for file in listing}
    return Difference(
        listed=len(listing),
        sources=sources,
        added=tuple(sorted(added)),
        removed=tuple(sorted(path for path in known if path not in present)),
        unread=tuple(sorted(unread)),
        changed=tuple(sorted(changed)),
        confirmed=tuple(confirmed),
    )


def _compare_contents(
    root: str, suspects: Sequence[tuple[ListedFile, KnownFile]]
) -> tuple[list[str], list[tuple[str, Stamp]]]:
    """Which of the files differ by their content, and which do not, with their stamps as they are now."""
    changed: list[str] = []
    confirmed: list[tuple[str, Stamp]] = []
    for index, (file, row) in enumerate(suspects):
        if file.stamp.size != row.stamp.size or index >= _MOST_COMPARED:
            changed.append(file.path)
            continue
        found = read_bytes(root, file.path)
        if found is not None and row.content_hash and content_hash(found[0]) == row.content_hash:
            confirmed.append((file.path, found[1]))
        else:
            changed.append(file.path)
    return changed, confirmed


def word_for(difference: Difference, *, known: int, complete: bool) -> Freshness:
    """The one word for an index with `known` files in it that was `complete` once, or never."""
    if not difference.all_paths:
        return "fresh"
    if complete:
        return "stale"
    read = difference.sources - len(difference.unread) - sum(1 for path in difference.added if language_of(path))
    return "partial" if known and read > 0 else "missing"
