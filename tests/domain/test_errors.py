from pattern_acp.domain.errors import WorkspaceError


def test_advice_is_for_the_model_and_the_sentence_for_both():
    error = WorkspaceError("a is a folder", advice="use list_directory.")
    assert error.for_model == str(error) == "a is a folder; use list_directory."
    assert error.sentence == "a is a folder."


def test_advice_behind_a_sentence_is_a_sentence():
    error = WorkspaceError("Nothing was changed.", advice="read it again.")
    assert error.for_model == "Nothing was changed. Read it again."
    assert error.sentence == "Nothing was changed."


def test_without_advice_both_read_the_same():
    error = WorkspaceError("a is a folder.")
    assert error.for_model == error.sentence == "a is a folder."
