"""Token counts."""

from pattern_acp.domain.usage import Usage


def test_counts_are_added_one_by_one():
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


def test_everything_that_was_read_or_written_is_in_the_context():
    assert (
        Usage(input_tokens=1, output_tokens=20, cache_read_tokens=300, cache_write_tokens=4000).context_tokens == 4321
    )
