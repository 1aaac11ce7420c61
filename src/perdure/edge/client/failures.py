"""What a server answers when it does not do as asked, as the errors that the embedded library raises."""

from collections.abc import Iterator
from functools import cache
from http import HTTPStatus as S
from http.client import BadStatusLine
from ssl import SSLCertVerificationError, SSLError
from typing import Any, Final

from perdure.core import errors
from perdure.core.errors import CallerError, ConflictError, Invalid, PerdureError, TooDeep, Unreachable, WorldError
from perdure.edge.http.wire import EXACTLY, loose

ANOTHER_NAME: Final = (62, 64)
"""What OpenSSL says when a certificate is genuine and names another host or address."""

ALERT: Final = "\x15\x03"
"""How TLS begins to say that it did not understand."""


def disagreement(trouble: BaseException | None) -> str | None:
    """What to do when the two sides do not agree on TLS, which no waiting will change; None for any other trouble."""
    if isinstance(trouble, SSLCertVerificationError):
        if trouble.verify_code in ANOTHER_NAME:
            return "its certificate is for another name; write the address by a name that the certificate has"
        return (
            "nothing vouches here for its certificate; give the file of the authority that signed it as ca=… (`ca.pem` "
            "if `perdure keys ca` made it)"
        )
    if isinstance(trouble, BadStatusLine) and str(trouble).startswith(ALERT):
        return "what answers there speaks TLS; write https://…"
    reason = (trouble.reason or "") if isinstance(trouble, SSLError) else ""
    if "CERTIFICATE_REQUIRED" in reason:
        return "it lets in only those who show a certificate; give yours as certificate=(certificate, key)"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason:
        return "it does not take the certificate that was shown; give one of the authority it trusts as certificate=…"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "what answers there does not speak TLS; write http://… if that is as it should be"
    return None


def failure_of(status: int, body: bytes, url: str) -> PerdureError:
    """The error behind an answer: of the same class, with the same fields. What is no problem of perdure's comes from
    something in between, and is `Unreachable`.
    """
    try:
        found = loose(body, EXACTLY)
    except (Invalid, TooDeep):
        found = None
    if type(found) is not dict or type(found.get("code")) is not str:
        told = f"{url} answered {status} in words that are not perdure's; look at the address and at what is in between"
        return Unreachable(told, url=url, status=status)
    fields = found.get("fields")
    facts: dict[str, Any] = {**fields} if type(fields) is dict else {}
    kind = by_code().get(found["code"])
    if kind is None:
        kind, facts = by_status(status), {**facts, "status": status, "problem": found["code"]}
    return kind(str(found.get("detail") or found.get("title") or status), **facts)


@cache
def by_code() -> dict[str, type[PerdureError]]:
    """Every class of the tree by what it is called on the wire."""
    kinds: list[type[PerdureError]] = [PerdureError, *_below(PerdureError)]
    return {kind.code: kind for kind in kinds if getattr(errors, kind.__name__, None) is kind}


def _below(kind: type[PerdureError]) -> Iterator[type[PerdureError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def by_status(status: int) -> type[PerdureError]:
    """The branch of the tree that a status belongs to."""
    if status in (S.CONFLICT, S.PRECONDITION_FAILED):
        return ConflictError
    return CallerError if status < S.INTERNAL_SERVER_ERROR else WorldError
