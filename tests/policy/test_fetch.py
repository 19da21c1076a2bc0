"""Pages of the web: what asks, and how far an always reaches."""

import pytest

from pattern_acp.domain.access import FetchUrl
from pattern_acp.policy.decide import Mode, Verdict, decide
from pattern_acp.policy.decision import PermissionAnswer
from pattern_acp.policy.grants import approval_options, grant_for

PAGE = FetchUrl("example.com", "https://example.com/a")


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_asks_until_the_host_is_allowed_and_only_that_host(mode: Mode):
    asked = decide([PAGE], mode=mode, roots=[])
    assert (asked.verdict, asked.rule) == (Verdict.ASK, "fetch")
    assert asked.reason == "It fetches a page of `example.com` and tells that server the URL."
    allowed = grant_for(PermissionAnswer.ALLOW_ALWAYS, asked)
    refused = grant_for(PermissionAnswer.REJECT_ALWAYS, asked)
    assert allowed is not None
    assert refused is not None
    other = FetchUrl("example.com", "https://example.com/b")
    assert decide([other], mode=mode, roots=[], grants=[allowed]).verdict is Verdict.ALLOW
    for host in ("www.example.com", "example.com:8080", "example.com.evil.example"):
        assert decide([FetchUrl(host, "u")], mode=mode, roots=[], grants=[allowed]).verdict is Verdict.ASK
    assert decide([other], mode=mode, roots=[], grants=[allowed, refused]).verdict is Verdict.DENY


def test_the_answers_say_how_far_they_reach():
    labels = [option.name for option in approval_options(decide([PAGE], mode=Mode.AUTO, roots=[]), [PAGE])]
    assert labels[1] == "Always allow pages of example.com in this session"
    long = FetchUrl("a-very-long-name-of-some-host.example.com", "u")
    similar = FetchUrl("another-long-name-of-some-host.example.com", "u")
    labels = [option.name for option in approval_options(decide([long], mode=Mode.AUTO, roots=[]), [long])]
    assert labels[1] == "Always allow pages of …host.example.com (+25 chars, 33835b28) in this session"
    others = approval_options(decide([similar], mode=Mode.AUTO, roots=[]), [similar])
    assert others[1].name != labels[1]
