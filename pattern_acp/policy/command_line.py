"""What a shell line is, once read: its simple commands, and what it holds besides them.

Owns: the value types. Must not know: any grammar, which commands are dangerous or allowed, or any path.
"""

from enum import StrEnum

from msgspec import Struct


class Feature(StrEnum):
    """What a line holds besides plain simple commands. The value is how it is named in a reason."""

    SUBSTITUTION = "a command substitution"
    PROCESS_SUBSTITUTION = "a process substitution"
    HERE_DOCUMENT = "a here-document"
    FILE_REDIRECTION = "a redirection to or from a file"
    BACKGROUND = "a background command"
    SUBSHELL = "a subshell or group"
    FUNCTION = "a function or alias definition"
    CONTROL_FLOW = "a loop, condition or test"
    EXPANSION = "a variable or arithmetic expansion"
    BRACES = "a brace expansion"
    GLOB = "a file pattern, which may turn into an option or a link"
    ASSIGNMENT = "an environment assignment"
    ENCODED_TEXT = "encoded text"
    COMMENT = "a comment"
    SEVERAL_LINES = "more than one line"
    BROKEN_WORD = "a word that goes on in the next line"
    CHANGING_COMMAND = "a command name that is only known when it runs"
    FOREIGN_COMMAND = "a command name with letters that are not ASCII"
    CONTROL_CHARACTER = "a control character"
    INVISIBLE_CHARACTER = "an invisible or misleading character"
    OTHER_SHELL = "text that the Windows shell reads in another way"
    AMBIGUOUS = "text that two readers split differently"
    OTHER_SYNTAX = "syntax that is not understood"
    TOO_LONG = "more text than is read"
    UNREADABLE = "text that is not a complete shell line"
    NO_GRAMMAR = "no grammar to read it with"


HIDING = frozenset(
    {
        Feature.FUNCTION, Feature.BROKEN_WORD, Feature.CHANGING_COMMAND, Feature.FOREIGN_COMMAND,
        Feature.CONTROL_CHARACTER, Feature.INVISIBLE_CHARACTER, Feature.OTHER_SHELL, Feature.OTHER_SYNTAX,
        Feature.TOO_LONG, Feature.UNREADABLE, Feature.NO_GRAMMAR,
    }
)  # fmt: skip
"""Features that keep a reader from knowing which commands a line runs: such a line asks even in `auto`."""


class Redirection(Struct, frozen=True):
    """One redirection: operator and target as the shell would see it. Harmless ones are left out of a line."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether it can change the target."""
        return ">" in self.operator


class SimpleCommand(Struct, frozen=True):
    """One simple command. Words have their quotes taken off; expansions stay as they are written.

    `changing` are the indexes of words that hold an expansion or substitution. `piped` says that it reads what
    another command of the line writes, or a here-document.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    changing: frozenset[int] = frozenset()
    piped: bool = False


class CommandLine(Struct, frozen=True):
    """A line as read: every simple command at any depth, in source order, and what else it holds."""

    text: str
    commands: tuple[SimpleCommand, ...]
    redirections: tuple[Redirection, ...] = ()
    features: frozenset[Feature] = frozenset()
    parse_ok: bool = True

    @property
    def is_hiding(self) -> bool:
        """Whether it cannot be told which commands run."""
        return not self.parse_ok or not self.features.isdisjoint(HIDING)
