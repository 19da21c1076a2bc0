"""Task groups wrap errors; the boundaries of a turn want the error itself."""

from typing import cast


def single_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error inside `group`, or its first when there are several."""
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return single_error(cast("BaseExceptionGroup[BaseException]", first))
    return first
