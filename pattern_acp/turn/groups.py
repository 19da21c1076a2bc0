"""Task groups wrap errors; the boundaries of a turn want the error itself."""


def single_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error inside `group`, or its first when there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
