"""AWS credentials from botocore, and what is said where there are none."""

import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest
from botocore.exceptions import ConnectTimeoutError, ProfileNotFound

from pattern_acp.credentials.aws_keys import AwsCredentials, AwsKeys
from pattern_acp.credentials.model import CloudCredentialsError, SignInTransientError


def failing(error: Callable[..., Exception], **words: str) -> AwsKeys:
    def load() -> AwsCredentials | None:
        raise error(**words)

    return AwsKeys(load)


async def test_a_machine_without_credentials_is_told_how_to_get_them():
    with pytest.raises(CloudCredentialsError, match="bedrock finds no AWS credentials; run `aws sso login`"):
        await AwsKeys(lambda: None).key("bedrock")


async def test_a_profile_that_is_none_is_told_by_its_kind():
    wrong = cast("Callable[..., Exception]", ProfileNotFound)
    with pytest.raises(CloudCredentialsError, match=r"cannot be used \(ProfileNotFound\); run `aws sso login`"):
        await failing(wrong, profile="gone").key("bedrock")


async def test_a_server_of_credentials_that_is_away_may_be_tried_again():
    away = cast("Callable[..., Exception]", ConnectTimeoutError)
    with pytest.raises(SignInTransientError, match="cannot be reached; try again"):
        await failing(away, endpoint_url="http://h").sign("bedrock", "eu-west-1", "http://h", {}, b"")


def test_without_the_extra_the_sentence_has_the_line_that_installs_it():
    script = (
        "import sys, anyio; sys.modules['botocore'] = None\n"
        "from pattern_acp.credentials.aws_keys import AwsKeys\n"
        "anyio.run(AwsKeys().key, 'bedrock')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False)
    assert (
        'bedrock needs botocore to sign, which is not installed; run: pip install "pattern-acp[bedrock]"' in done.stderr
    )
