"""Which addresses belong to the public internet.

Owns: that question for numeric addresses, also those that carry another one inside. Must not know: names, connections.
Source: the special-purpose registries of IANA, as Python's `ipaddress` has them.
"""

import ipaddress
import socket

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""An IPv4 address for gateways, in the last 32 bits (RFC 6052)."""


def literal_address(host: str) -> str | None:
    """The numeric address that a host is written as, in any of the forms that systems take (`127.1`, `0x7f000001`).

    None for a name, but the loopback address for `localhost`, which is a name for nothing else (RFC 6761).
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None


def is_public(address: str) -> bool:
    """Whether a numeric address is one that everybody can reach; anything that cannot be read is not."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = _inner(parsed)
        if inner is not None:
            return _is_public(inner)
    return _is_public(parsed)


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that packets to this one end up at."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_link_local
    return address.is_global and not is_special
