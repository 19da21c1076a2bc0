"""Errors of tasks. Every one means that nothing was changed; the sentence is for the model and the user."""

from pattern_acp.domain.errors import TaskError


class TaskNotFoundError(TaskError):
    """No task in sight has this reference."""

    failure_code = "tasks.task-missing"

    def __init__(self, ref: str, known: tuple[str, ...] = ()) -> None:
        """Name the reference and, where they are known, the newest tasks that exist."""
        hint = f" The newest open ones are: {'; '.join(known)}." if known else " There are no open tasks."
        super().__init__(f"There is no task {ref!r}.{hint}")
        self.ref = ref


class NotATaskListError(TaskError):
    """The stored document is none of tasks, or is damaged."""

    failure_code = "tasks.list-damaged"

    def __init__(self, list_id: str, problem: str) -> None:
        """Name the list; `problem` says what is wrong with it."""
        super().__init__(
            f"The task list {list_id} cannot be read ({problem}); run `pattern-acp doctor`, and restore a backup if it "
            "reports damage."
        )
        self.list_id = list_id


class TaskTakenError(TaskError):
    """Another session that runs works on the task."""

    failure_code = "tasks.task-taken"

    def __init__(self, ref: str, owner: str) -> None:
        """Name the task, and who has it."""
        super().__init__(
            f"{owner} works on the task {ref} in another session that is open; take another one, comment on it, or "
            "ask the user."
        )


class TaskRefusedError(TaskError):
    """The change breaks a rule of tasks, or changes nothing."""

    failure_code = "tasks.change-refused"
