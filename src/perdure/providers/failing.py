"""What a provider's failure means: its status and its words become one of perdure's errors.

Every error has the same fields: `provider`, `model`, `status` (0 where none came), `type` and `told` (the provider's
words), `retry_after` (seconds, or None), and `too_long`, which says that the prompt does not fit. Our key is in none
of them, even if the provider repeats it.
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeAlias

import msgspec

from perdure.core.errors import (
    Invalid,
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderFailed,
    ProviderGarbled,
    ProviderRefused,
)
from perdure.core.talk.parts import Failed
from perdure.core.talk.routes import Upstream

TOLD: Final = 2_000
"""Characters of a provider's words that are handed on."""
INTERRUPTED: Final = "interrupted"

_Error: TypeAlias = type[ProviderFailed] | type[ProviderRefused]
_DONE_FOR: Final = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
"""Told as a limit of requests, but waiting does not help."""
_STATUSES: Final[dict[int, _Error]] = {
    401: ProviderDenied,
    402: ProviderDenied,
    403: ProviderDenied,
    407: ProviderDenied,
    408: ProviderDown,
    409: ProviderBusy,
    425: ProviderBusy,
    429: ProviderBusy,
    503: ProviderBusy,
    529: ProviderBusy,
}
_TYPES: Final[dict[str, _Error]] = {
    INTERRUPTED: ProviderCut,
    "overloaded_error": ProviderBusy,
    "rate_limit_error": ProviderBusy,
    "rate_limit_exceeded": ProviderBusy,
    "server_overloaded": ProviderBusy,
    "too_many_requests": ProviderBusy,
    "tokens": ProviderBusy,
    "requests": ProviderBusy,
    "authentication_error": ProviderDenied,
    "permission_error": ProviderDenied,
    "invalid_api_key": ProviderDenied,
    "invalid_request_error": ProviderRefused,
    "invalid_prompt": ProviderRefused,
    "not_found_error": ProviderRefused,
    "model_not_found": ProviderRefused,
    "request_too_large": ProviderRefused,
    "context_length_exceeded": ProviderRefused,
}
_NEXT: Final[dict[_Error, str]] = {
    ProviderRefused: "says that the request is wrong; correct it",
    ProviderDenied: "does not take our key for this; correct the key, or what it may do",
    ProviderBusy: "has too much to do; ask again later",
    ProviderDown: "fails on its side; ask again later",
    ProviderGarbled: "does not say what belongs there; see whether its address and kind are right",
    ProviderCut: "broke off in the middle; ask again",
}
_STATUS: Final = re.compile(r"[45]\d\d")
_TOO_LONG: Final = ("context_length_exceeded", "request_too_large")
_TOO_LONG_WORDS: Final = ("prompt is too long", "maximum context length", "context window", "context length")


class Telling:
    """The failures of one upstream, told without its key."""

    def __init__(self, upstream: Upstream) -> None:
        self._name = upstream.name
        self._secrets = [secret for secret in (upstream.key, *upstream.headers.values()) if len(secret) > 3]

    def error(
        self,
        kind: _Error,
        model: str,
        why: str = "",
        *,
        status: int = 0,
        type: str = "",  # noqa: A002 - the providers' own word
        retry_after: float | None = None,
        too_long: bool = False,
    ) -> PerdureError:
        """An error of this kind; `why` are the provider's words, or ours about it."""
        told = self._without_secrets(why)
        what = _NEXT.get(kind, "gives no answer; ask again later")
        return kind(
            f"{self._name} {what}" + (f" ({told})" if told else ""),
            provider=self._name,
            model=model,
            status=status,
            type=type,
            told=told,
            retry_after=retry_after,
            too_long=too_long,
        )

    def failed(self, model: str, failed: Failed, code: str = "") -> PerdureError:
        """What a failure in the middle of an answer, or instead of one, means; it has no status of its own."""
        if code in _DONE_FOR or failed.type in _DONE_FOR:
            kind: _Error = ProviderDenied
        elif _STATUS.fullmatch(code):
            kind = _of(int(code))
        else:
            kind = _TYPES.get(code) or _TYPES.get(failed.type, ProviderDown)
        long = kind is ProviderRefused and _is_too_long(failed, code)
        return self.error(kind, model, failed.message, type=code or failed.type, too_long=long)

    def refused(self, model: str, status: int, headers: Mapping[str, str], body: bytes) -> PerdureError:
        """What an answer that is none means."""
        document = _document(body)
        failed, code = said(document)
        if not failed.message:
            shown = "" if isinstance(document, dict) else body[:TOLD].decode("utf-8", "replace").strip()
            failed = Failed(type=failed.type, message=shown or f"status {status}")
        if code in _DONE_FOR or failed.type in _DONE_FOR:
            kind: _Error = ProviderDenied
        else:
            kind = _of(status)
        return self.error(
            kind,
            model,
            failed.message,
            status=status,
            type=code or failed.type,
            retry_after=retry_after(headers),
            too_long=kind is ProviderRefused and _is_too_long(failed, code),
        )

    def unsendable(self, model: str, error: Invalid) -> PerdureError:
        """What cannot be said in the provider's form is a request that it would refuse."""
        return self.error(ProviderRefused, model, error.message, type="invalid_request_error")

    def _without_secrets(self, words: str) -> str:
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return words[:TOLD]


def said(document: object) -> tuple[Failed, str]:
    """The type, the words and the code in a document that tells of an error, as far as there are any."""
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, str):
        return Failed(type="", message=error), ""
    if not isinstance(error, dict):
        error = document if isinstance(document, dict) else {}
    words = error.get("message") or error.get("detail")
    kind, code = error.get("type"), error.get("code")
    named = kind if isinstance(kind, str) else ""
    told = str(code) if isinstance(code, str | int) and code is not True else ""  # some give the status as the code
    return Failed(type=named, message=words if isinstance(words, str) else ""), told


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds after which the provider wants to be asked again, if it says: in milliseconds, in seconds, or as a date,
    which is read against the date of the answer.
    """
    exact = _number(headers.get("retry-after-ms", ""))
    if exact is not None:
        return exact / 1000
    told = headers.get("retry-after", "")
    seconds = _number(told)
    if seconds is not None or not told:
        return seconds
    try:
        apart = parsedate_to_datetime(told) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, apart.total_seconds())


def _of(status: int) -> _Error:
    """What a status means by itself."""
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        return ProviderDown
    return ProviderRefused if status >= 400 else ProviderGarbled


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _document(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _is_too_long(failed: Failed, code: str) -> bool:
    words = failed.message.lower()
    return code in _TOO_LONG or failed.type in _TOO_LONG or any(phrase in words for phrase in _TOO_LONG_WORDS)
