"""The error tree. Each layer raises its own branch and translates the layer below once.

    PatternError
    ├── ConfigError            a setting that cannot be used
    ├── DatabaseError          the constellation file (db/errors.py refines it)
    ├── JournalError           a broken chain, an unknown session, a held lease
    ├── BlockError             a block, an edit, a document (memory/errors.py refines it)
    ├── TaskError              a task or a list of them (tasks/model.py refines it)
    ├── JobError               a job that the user agrees to (jobs/model.py refines it)
    ├── PolicyError            a grant that cannot be stored
    ├── ProviderError          a model request (providers/http_errors.py refines it)
    ├── SignInError            keys and sign-ins (credentials/model.py refines it)
    ├── WorkspaceError         files, paths, terminals (workspace/errors.py refines it)
    ├── WebError               a page of the web (web.py refines it)
    ├── SessionError           a request that a session cannot serve
    └── ProtocolError          between two JSON-RPC peers (jsonrpc/messages.py)

The message of every one is a full sentence for a user: what is wrong, and what to do. It never holds a key or a
prompt. Its `failure_code` names a row of cli/failures.toml (failures.md), which says whose fault it is and what
helps; tests/architecture/test_failures.py keeps both equal.
"""

from typing import cast

_SENTENCE_ENDS = (".", "?", "!", "…")


class PatternError(Exception):
    """Root of all errors that pattern-acp raises on purpose."""

    failure_code: str = "agent.fault"
    """The row of cli/failures.toml; every class that is raised has one of its own."""

    def __init__(self, *message: object, advice: str = "", failure_code: str = "") -> None:
        """Take what is wrong, and what the model does next.

        Args:
            message: what is wrong, for the user and the model; without its full stop where advice continues it.
            advice: what the model alone reads behind it, such as the tool to use; it ends with a full stop.
            failure_code: for a class that stands for several failures, or for the error that it translates.
        """
        shown = " ".join(map(str, message))
        if advice:
            is_whole = shown.endswith(_SENTENCE_ENDS)
            advice = advice[:1].upper() + advice[1:] if is_whole else advice
            message = (f"{shown}{' ' if is_whole else '; '}{advice}",)
            shown = shown if is_whole else f"{shown}."
        super().__init__(*message)
        self._shown = shown
        self.advice = advice
        if failure_code:
            self.failure_code = failure_code

    @property
    def sentence(self) -> str:
        """The sentence for a user: what is wrong."""
        return self._shown

    @property
    def for_model(self) -> str:
        """The sentence with the advice, as the result of a tool."""
        return str(self)


class ConfigError(PatternError):
    """A setting cannot be used."""

    failure_code = "config.unusable"


class DatabaseError(PatternError):
    """The constellation file cannot be read or written.

    Everything that reads or writes it raises this; docstrings name it only where they can say more.
    """

    failure_code = "database.refused"


class JournalError(PatternError):
    """The journal refuses: a broken chain, an unknown session, a lease held elsewhere.

    All that reads events raises it where one cannot be understood; docstrings name it only where they can say more.
    """


class BlockError(PatternError):
    """A memory block cannot be read or changed as asked; nothing was changed."""


class TaskError(PatternError):
    """A task cannot be read or changed as asked; nothing was changed."""


class JobError(PatternError):
    """A job cannot be read or moved as asked; nothing was changed."""


class PolicyError(PatternError):
    """A grant or refusal cannot be stored or read."""

    failure_code = "policy.grant-unknown"


class ProviderError(PatternError):
    """A model request failed."""


class SignInError(PatternError):
    """A key or a sign-in cannot be obtained, stored or renewed."""


class WorkspaceError(PatternError):
    """A file, a command or a path cannot be used as asked."""

    failure_code = "workspace.refused"


class PathUnusableError(WorkspaceError):
    """The path itself names nothing that can be used."""

    failure_code = "workspace.path-unusable"


class PatternUnusableError(WorkspaceError):
    """A glob or a regular expression that cannot be searched for."""

    failure_code = "workspace.pattern-unusable"


class WebError(PatternError):
    """A page of the web cannot be obtained."""


class SessionError(PatternError):
    """A session cannot serve the request."""


class InvalidRequestError(SessionError):
    """The request itself is wrong (relative cwd, unknown option). Becomes JSON-RPC -32602."""

    failure_code = "session.request-invalid"


def unwrap_exception_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error inside `group`, or its first when there are several."""
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return unwrap_exception_group(cast("BaseExceptionGroup[BaseException]", first))
    return first
