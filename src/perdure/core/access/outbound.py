"""Where a server may post to on somebody's behalf: addresses of the public network, and private ones only if it was
told so. What an address is decided by is the address itself, never the name that led to it.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
SWITCH: Final = "webhook_private"
"""The setting that lets private addresses be told, named in what is said to whoever may not use one."""
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_PEOPLED: Final = (IPv6Network("2000::/3"), IPv6Network("fc00::/7"))
"""Where in IPv6 receivers can be: the public part that is given out, and private networks."""


def refusal(scheme: str, found: Sequence[str], *, private: bool) -> str | None:
    """Why nothing may be posted to a host with these addresses; None when it may. All of them must be fit: which one
    a name leads to next is not ours to choose.
    """
    inside = False
    for spelled in found:
        try:
            address = plain(ip_address(spelled))
        except ValueError:
            return f"{spelled[:64]!r} is no address"
        if _nowhere(address):
            return f"{address} is an address that no receiver has"
        if not address.is_global:
            inside = True
            if not private:
                return f"{address} is a private address; the operator may allow those with {SWITCH}"
    if scheme != "https" and not (inside and all(not plain(ip_address(each)).is_global for each in found)):
        return "outside a private network a webhook is https; give such an address"
    return None


def plain(address: Address) -> Address:
    """The address that is reached: an IPv4 address in IPv6 clothing is that IPv4 address."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _nowhere(address: Address) -> bool:
    """What no setting allows: everybody, nobody, and the neighbours on the wire, among them what clouds tell their
    machines' secrets by.
    """
    if address.is_loopback:
        return False
    odd = address.is_unspecified or address.is_multicast or address.is_link_local or address.is_reserved
    if isinstance(address, IPv4Address):
        return odd or address.packed[0] == 0
    return odd or address.teredo is not None or not any(address in network for network in _PEOPLED)
