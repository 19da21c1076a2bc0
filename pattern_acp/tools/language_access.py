"""How tools reach the language servers of a session.

Owns: the port. Must not know: which servers there are, or how they are spoken to.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pattern_acp.lsp.model import CodeLocation, FileEdits, Span


class LanguageAccess(Protocol):
    """The language servers of one session. Paths are absolute; texts are those that the person sees."""

    async def note_before(self, path: str, text: str | None) -> None:
        """Note the text that an edit starts from; None: the file is new. Never fails and waits for no server."""
        ...

    def note_gone(self, path: str) -> None:
        """Note that a file was deleted or got another name. Never fails."""
        ...

    async def definition(self, path: str, text: str, at: "Span") -> "tuple[CodeLocation, ...]":
        """Where what stands at the beginning of `at` is defined.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        ...

    async def references(self, path: str, text: str, at: "Span") -> "tuple[CodeLocation, ...]":
        """Where what stands at the beginning of `at` is used, its definition included.

        Raises:
            LanguageServerError: there is no server for the file, or it cannot say.
        """
        ...

    async def rename(self, path: str, text: str, at: "Span", new_name: str) -> "tuple[FileEdits, ...]":
        """What has to change for what stands at the beginning of `at` to be called `new_name`.

        Raises:
            LanguageServerError: there is no server for the file, or it refuses.
        """
        ...

    async def show(self, path: str, text: str) -> None:
        """Tell the file's server the text of a file, which may not be on the disk yet."""
        ...
