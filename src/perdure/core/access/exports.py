"""Exported audit logs: proven from their lines alone, to the last digest, which the line after them may vouch for."""

import re
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from perdure.core.errors import BadExport
from perdure.core.session.jsonl import from_hex
from perdure.core.session.rebuilding import Rebuilder

MARK: Final = b'{"perdure":"signature"'
MOST: Final = 4096
_SESSION: Final = re.compile(r"\b(the|another|one|whose) session\b")


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last line: a signed head as the vault keeps it, bytes in hexadecimal."""

    perdure: Literal["signature"] = "signature"
    algorithm: Literal["HMAC-SHA256"] = "HMAC-SHA256"
    store: str
    tenant: str
    session: str
    salt: str
    version: int
    digest: str
    at: int
    remark: str
    mac: str


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """What an export holds, once its chain was computed anew: whose it is, how far it goes, and who vouches for it."""

    tenant: str
    session: str
    version: int
    digest: str
    events: int
    signature: Signature | None = None


def written(signature: Signature) -> bytes:
    """The line, its newline included."""
    return msgspec.json.encode(signature) + b"\n"


def proven(lines: Iterable[bytes]) -> Proven:
    """Prove every line of an export; `BadExport` names the first that is wrong. A signature must stand for a version
    and a digest of this very log; whether it is genuine, only those with the key can tell.
    """
    try:
        return _proven(lines)
    except BadExport as wrong:  # the lines are those of any session; here they are a log's
        raise BadExport(_SESSION.sub(r"\1 audit log", wrong.message), **wrong.fields) from wrong


def _proven(lines: Iterable[bytes]) -> Proven:
    rebuilder, signature = Rebuilder(), None
    digests: dict[int, str] = {}
    for line in lines:
        if line.startswith(MARK) and rebuilder.finished and signature is None:
            signature = _signature(line, rebuilder.number + 1)
        elif signature is not None:
            raise BadExport("nothing may follow the signature of an audit log; the export was added to")
        else:
            rebuilder.take(line)
            digests[rebuilder.version] = rebuilder.digest.hex()
    rebuilder.cut_short()
    header = rebuilder.header
    assert header is not None, "a finished export had a header"
    if signature is not None and (signature.tenant, signature.session) != (header.tenant, header.session):
        raise BadExport("the signature is another audit log's; export the audit log again")
    if signature is not None and digests.get(signature.version) != signature.digest:
        raise BadExport("the signature does not fit the lines of this audit log; they were changed, or it is another's")
    return Proven(
        tenant=header.tenant,
        session=header.session,
        version=rebuilder.version,
        digest=rebuilder.digest.hex(),
        events=rebuilder.events,
        signature=signature,
    )


def _signature(line: bytes, number: int) -> Signature:
    try:
        found: Any = msgspec.json.decode(line if len(line) <= MOST else b"", type=Signature)
    except (msgspec.MsgspecError, ValueError) as wrong:
        told = f"line {number}: the signature cannot be read: {wrong}; export the audit log again"
        raise BadExport(told, line=number) from wrong
    signature: Signature = found
    for name in ("digest", "mac"):
        from_hex(getattr(signature, name), number, name)
    return signature
