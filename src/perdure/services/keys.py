"""Idempotency keys: who used which one, on what, and for which request."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from perdure.core.errors import Invalid
from perdure.core.session import codec
from perdure.core.session import commands as do
from perdure.core.session.ids import SessionId
from perdure.core.session.shown import shown
from perdure.core.session.values import check
from perdure.ports.store import KeyUse

MAX_KEY: Final = 256


def key_use(principal: str, session: SessionId | None, key: str | None, asked: do.Command | list[Any]) -> KeyUse | None:
    """The use of a key for a request; None without a key, `Invalid` when it cannot be one."""
    if key is None:
        return None
    if type(key) is not str or not 0 < len(key) <= MAX_KEY:
        raise Invalid(f"an idempotency key is a text of 1 to {MAX_KEY} characters, not {shown(key)}")
    check(key)
    return KeyUse(principal=principal, session=session, key=key, fingerprint=fingerprint(asked))


def fingerprint(command: do.Command | list[Any]) -> bytes:
    """What a request is, for telling a repeated one from another under the same key."""
    if isinstance(command, list):
        return sha256(codec.encode(command)).digest()
    kinds: Sequence[str] = [item.payload.kind for item in command.drafts] if isinstance(command, do.Append) else ()
    body = codec.encode([type(command).__name__, *kinds])
    return sha256(body + codec.encode_struct(command)).digest()
