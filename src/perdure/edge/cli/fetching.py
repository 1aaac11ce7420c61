"""Fetching a document over the network: over TLS, or in the clear from this machine alone, and no more than fits."""

from ipaddress import ip_address
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from perdure.core.errors import Invalid, TooLarge, Unreachable

LARGEST: Final = 16 << 20
PATIENCE: Final = 30.0


class _Followed(HTTPRedirectHandler):
    """An answer that leads elsewhere leads only to where one could have asked."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        must_be_safe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(address: str, *, largest: int = LARGEST) -> bytes:
    """What lies at an address. `Invalid` when it may not be asked, `Unreachable` when it does not answer well."""
    from http.client import HTTPException

    must_be_safe(address)
    try:
        with build_opener(_Followed()).open(address, timeout=PATIENCE) as answer:
            content: bytes = answer.read(largest + 1)
    except (URLError, HTTPException, OSError) as wrong:
        why = getattr(wrong, "reason", None) or wrong
        told = f"{_bare(address)} cannot be had ({why}); look at the address, or fetch it yourself and give the file"
        raise Unreachable(told) from wrong
    if len(content) > largest:
        raise TooLarge(f"{_bare(address)} has more than {largest} bytes; that is no document of this kind")
    return content


def must_be_safe(address: str) -> None:
    """`Invalid` unless nobody on the way can have changed what is fetched from this address."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError as wrong:
        raise Invalid(f"this is no address ({wrong}); write https://host/path") from wrong
    if not host or (parts.scheme != "https" and not (parts.scheme == "http" and _is_here(host))):
        raise Invalid(f"{_bare(address)} may not be asked; use https://, or http:// on this machine, or give a file")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _bare(address: str) -> str:
    """An address without what may be a secret in it."""
    return address.partition("?")[0].rpartition("@")[2]
