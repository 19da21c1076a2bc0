import pytest

from pattern_acp.memory.secrets import mask_secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("nothing here", "nothing here"),
        (f"use {'ghp_' + 'a1B2' * 9} now", "use [secret] now"),
        ("password = hunter2!x", "password = [secret]"),
        ("postgres://me:s3cr3t@host/db", "postgres://me:[secret]@host/db"),
        ("password: <your password>", "password: <your password>"),
        ("-----BEGIN PRIVATE KEY-----\nMIIx\n-----END PRIVATE KEY-----\nafter", "[secret]\nafter"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_the_rest_stays(text: str, masked: str):
    assert mask_secrets(text) == masked
