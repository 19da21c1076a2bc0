"""Which addresses are public."""

from ipaddress import IPv4Address

import pytest

from pattern_acp.web import is_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        str(IPv4Address(0)),
        "224.0.0.1",
        "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1",
        "fd12:3456::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1",
        "2002:7f00:1::", "2002:a00:1::", "2001:db8::1", "2001:0:4136:e378::1", "::127.0.0.1", "nonsense", "",
    ],
)  # fmt: skip
def test_what_leads_to_a_machine_nearby_is_not(address: str):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_the_rest_is(address: str):
    assert is_public(address)
