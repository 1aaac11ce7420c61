"""Webhooks: a signed POST to an address the operator configured, tried a few times and then given back.

The headers are those of the Standard Webhooks convention, so that receivers may verify them with a library of their
language: `webhook-id`, `webhook-timestamp` (seconds) and `webhook-signature`, which is `v1,` and the base64 of
HMAC-SHA256 over `id.timestamp.body`. Redirects are not followed: what answers is the address that was configured.
"""

import base64
import binascii
import hmac
from collections.abc import Callable
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from perdure.core.errors import DeliveryFailed, Invalid
from perdure.core.session.shown import shown
from perdure.ports.ambient import Ambient
from perdure.services.foreign import Late, asked

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

ATTEMPTS: Final = 4
TIMEOUT: Final = 10.0
FIRST_DELAY: Final = 0.5
LEAST_SECRET: Final = 16
PREFIX: Final = "whsec_"
_MICROSECONDS: Final = 1_000_000
_WORTH_A_RETRY: Final = frozenset({408, 425, 429})
Send: TypeAlias = Callable[[str, dict[str, str], bytes, float], tuple[int, str]]
"""One attempt, on a thread of its own: address, headers, body and seconds; the status and what was wrong."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """Where to post, and the secret both sides know."""

    url: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Webhook({self.host})"

    @property
    def host(self) -> str:
        """The host alone: an address may hold a token."""
        return urlsplit(self.url).hostname or ""

    @property
    def label(self) -> str:
        """What the log may call it: the host, and enough to tell two addresses there apart."""
        return f"{self.host[:64]}-{sha256(self.url.encode()).hexdigest()[:8]}"


def webhook(url: str, secret: str | bytes) -> Webhook:
    """A webhook from what the operator wrote down, or `Invalid`. A secret `whsec_…` is base64, any other is itself."""
    if not _is_address(url):
        raise Invalid(f"a webhook is an http or https address without a user in it, not {shown(url)}")
    if isinstance(secret, str) and secret.startswith(PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise Invalid(f"after {PREFIX} a secret is base64; copy it whole") from None
    else:
        try:
            key = secret.encode() if isinstance(secret, str) else secret
        except UnicodeEncodeError:
            raise Invalid("a webhook's secret is UTF-8, or bytes; give it as bytes") from None
    if type(key) is not bytes or len(key) < LEAST_SECRET:
        raise Invalid(f"a webhook's secret has at least {LEAST_SECRET} bytes; make one from random bytes")
    return Webhook(url=url, secret=key)


def _is_address(url: Any) -> bool:
    """Whether it can be posted to: as it stands, not as a lenient reader would mend it."""
    if type(url) is not str or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port beyond the last one, or half an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and port != 0


def signature(secret: bytes, delivery: str, timestamp: int, body: bytes) -> str:
    """What the receiver computes again to know who sent this, and that nothing in it was changed."""
    signed = f"{delivery}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()


class Webhooks:
    """Delivering, with patience."""

    def __init__(self, ambient: Ambient, send: Send | None = None) -> None:
        self._ambient = ambient
        self._send = send or post

    async def deliver(
        self, hook: Webhook, delivery: str, body: bytes, seconds: float | None = None, attempts: int = ATTEMPTS
    ) -> int:
        """Post the body until it is taken; how many attempts that took. `DeliveryFailed` when none was, or none could
        be within so many seconds.

        Every attempt carries the same id, so that the receiver can pass over what it has taken before.
        """
        problem, until = "", None if seconds is None else self._ambient.now() + round(seconds * _MICROSECONDS)
        for attempt in range(1, attempts + 1):
            timestamp = self._ambient.now() // _MICROSECONDS
            headers = {
                "content-type": "application/json",
                "user-agent": "perdure",
                "webhook-id": delivery,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(hook.secret, delivery, timestamp, body),
            }
            status, problem = await self._post(hook.url, headers, body, until)
            if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                return attempt
            if status and status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _WORTH_A_RETRY:
                break
            pause = self._delay(attempt)
            if attempt == attempts or (until is not None and self._left(until) <= pause):
                break
            await self._ambient.sleep(pause)
        raise DeliveryFailed(
            f"{hook.host} did not take the webhook: {problem}; it is sent again later", host=hook.host, problem=problem
        )

    async def _post(self, url: str, headers: dict[str, str], body: bytes, until: int | None) -> tuple[int, str]:
        """One attempt, on a thread that is left behind when there is no answer in time."""
        seconds = TIMEOUT if until is None else min(TIMEOUT, self._left(until))
        try:
            found: tuple[int, str] = await asked(self._send, url, headers, body, seconds, seconds=seconds)
        except Late:
            return 0, f"no answer within {seconds:g} seconds"
        return found

    def _left(self, until: int) -> float:
        return max(0.0, (until - self._ambient.now()) / _MICROSECONDS)

    def _delay(self, attempt: int) -> float:
        """Twice as long each time, and never for two senders the same."""
        chance = int.from_bytes(self._ambient.random(2), "big") / 65536
        return FIRST_DELAY * (1 << attempt - 1) * (0.5 + chance)


def post(url: str, headers: dict[str, str], body: bytes, seconds: float) -> tuple[int, str]:
    """One attempt: the status, 0 if there was no answer, and what was wrong. So many seconds without a word end it."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    try:
        with _opener().open(Request(url, body, headers, method="POST"), timeout=seconds) as answer:
            return answer.status, f"status {answer.status}"
    except HTTPError as refusal:
        with refusal:
            return refusal.code, f"status {refusal.code}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return 0, f"{type(reason).__name__}: {reason}"


def _opener() -> "OpenerDirector":
    """What speaks HTTP and HTTPS and nothing else. Without a handler for redirects one is an answer like any other."""
    from urllib import request

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
