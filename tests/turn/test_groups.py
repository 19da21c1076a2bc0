"""Task groups wrap errors, one group in another where groups are nested."""

from pattern_acp.domain.errors import unwrap_exception_group


def test_the_error_itself_comes_out_however_deep_it_is_wrapped():
    error = ValueError("the one")
    assert (
        unwrap_exception_group(BaseExceptionGroup("outer", [ExceptionGroup("inner", [error]), KeyError("later")]))
        is error
    )
