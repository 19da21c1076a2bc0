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


@pytest.mark.parametrize(
    "beginning",
    [
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        *("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-"),
        *("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"),
        *("sk-", "sk-ant-", "sk_", "sk_live_", "rk_", "whsec_", "npm_", "pypi-", "hf_", "GOCSPX-"),
    ],
)
def test_every_beginning_of_a_token_is_looked_for(beginning: str):
    # Too even to pass for random, so that only the shape tells it.
    token = beginning + "aaaa" * 15
    assert token not in mask_secrets(f"It was {token} then.")
