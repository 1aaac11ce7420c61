"""The hash chain that makes every changed byte show.

::

    commitment = SHA-256(blind ‖ canonical(data))
    digest 0   = SHA-256("perdure/1/genesis" ‖ session id [‖ parent's digest at the branch point])
    digest n   = SHA-256("perdure/1/event"  ‖ digest n−1 ‖ header n ‖ commitment n)

The header is the canonical MessagePack array built by `header_bytes`. Data enters the chain only through its
commitment: destroying data and blind (redaction) leaves every digest as it was.
These rules cannot change without changing every digest; golden vectors in docs/FORMAT.md pin them.
"""

from hashlib import sha256

import msgspec

BLIND_BYTES = 16
_GENESIS = b"perdure/1/genesis"
_EVENT = b"perdure/1/event"
_pack = msgspec.msgpack.Encoder().encode


def commitment(blind: bytes, canonical: bytes) -> bytes:
    """What the chain knows of an event's data."""
    return sha256(blind + canonical).digest()


def genesis(session: bytes, parent: bytes | None = None) -> bytes:
    """Digest 0 of a session; a branch starts from its parent's digest as well."""
    return sha256(_GENESIS + session + (parent or b"")).digest()


def header_bytes(
    tenant: str,
    session: bytes,
    version: int,
    event_id: bytes,
    kind: str,
    kind_version: int,
    at: int,
    actor: str,
    agent: str | None,
    child_agent: str | None,
    target: str | None,
    turn: int | None,
    epoch: int,
    key: str | None,
) -> bytes:
    """The envelope without commitment and digest, as it is hashed."""
    return _pack(
        (
            tenant,
            session,
            version,
            event_id,
            kind,
            kind_version,
            at,
            actor,
            agent,
            child_agent,
            target,
            turn,
            epoch,
            key,
        )
    )


def link(previous: bytes, header: bytes, committed: bytes) -> bytes:
    """The next digest. Header lengths vary, but both neighbours are 32 bytes, so no two inputs collide."""
    return sha256(_EVENT + previous + header + committed).digest()
