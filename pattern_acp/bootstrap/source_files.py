"""The code map's view of a workspace: the files that its tools see.

Owns: putting the workspace's walk behind the code map's port. Must not know: what is read out of the files.
"""

import stat
import threading

from pattern_acp.codemap.model import ListedFile, stamp_of
from pattern_acp.workspace.walk import walk_files

MOST_FILES = 200_000
"""Files after which the rest of a workspace is left out."""


def list_source_files(root: str, stop: threading.Event) -> list[ListedFile]:
    """`codemap.model.ListFiles` over the local disk: regular files that Git does not ignore, in a stable order.

    A file whose name is no UTF-8 is left out: the index keeps names as text, and nobody could ask for that one.

    Raises:
        WalkStoppedError: `stop` was set.
    """
    listed: list[ListedFile] = []
    for walked in walk_files(root, stop):
        if walked.is_link or not _is_text(walked.name):
            continue
        try:
            found = walked.entry.stat(follow_symlinks=False)
        except OSError:
            continue  # deleted meanwhile
        if stat.S_ISREG(found.st_mode):
            listed.append(ListedFile(walked.name, stamp_of(found)))
        if len(listed) >= MOST_FILES:
            break
    return listed


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
