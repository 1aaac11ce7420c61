"""Failures of providers in perdure's words: status, type and patience are read, keys are not repeated."""

import pytest

from perdure.core.errors import (
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderGarbled,
    ProviderRefused,
)
from perdure.core.talk.parts import Failed
from perdure.core.talk.routes import Upstream
from perdure.providers.failing import Telling, retry_after

TELLING = Telling(Upstream(name="one", kind="anthropic", key="sk-secret", headers={"x-other": "hidden-too"}))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ProviderRefused),
        (401, ProviderDenied),
        (402, ProviderDenied),
        (403, ProviderDenied),
        (404, ProviderRefused),
        (413, ProviderRefused),
        (422, ProviderRefused),
        (429, ProviderBusy),
        (500, ProviderDown),
        (502, ProviderDown),
        (503, ProviderBusy),
        (504, ProviderDown),
        (529, ProviderBusy),
        (302, ProviderGarbled),
    ],
)
def test_a_status_has_its_error(status: int, kind: type[Exception]) -> None:
    error = TELLING.refused("m", status, {}, b'{"error": {"type": "t", "message": "their words"}}')
    assert type(error) is kind
    assert (error.status, error.told, error.type, error.provider, error.model) == (
        status,
        "their words",
        "t",
        "one",
        "m",
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error": "plain words"}', "plain words"),
        (b'{"detail": "of fastapi"}', "of fastapi"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"", "status 500"),
        (b"[1]", "[1]"),
        (b"{}", "status 500"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error": {"message": 5, "type": [], "code": 429}}', "status 500"),
    ],
)
def test_words_are_found_in_whatever_a_server_sends(body: bytes, told: str) -> None:
    assert TELLING.refused("m", 500, {}, body).told == told


def test_what_waiting_does_not_help_is_no_limit_of_requests() -> None:
    body = b'{"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}'
    assert type(TELLING.refused("m", 429, {}, body)) is ProviderDenied


@pytest.mark.parametrize(
    ("failed", "code", "kind"),
    [
        (Failed(type="overloaded_error"), "", ProviderBusy),
        (Failed(type="rate_limit_exceeded"), "", ProviderBusy),
        (Failed(type="server_error"), "server_overloaded", ProviderBusy),
        (Failed(type="api_error"), "", ProviderDown),
        (Failed(type="never heard of"), "", ProviderDown),
        (Failed(type=""), "429", ProviderBusy),
        (Failed(type=""), "400", ProviderRefused),
        (Failed(type="interrupted"), "", ProviderCut),
        (Failed(type="invalid_request_error"), "", ProviderRefused),
        (Failed(type="authentication_error"), "", ProviderDenied),
    ],
)
def test_a_failure_in_the_middle_has_its_error(failed: Failed, code: str, kind: type[Exception]) -> None:
    assert type(TELLING.failed("m", failed, code)) is kind


def test_a_prompt_that_does_not_fit_is_told_apart() -> None:
    anthropic = b'{"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 5 maximum"}}'
    openai = b'{"error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "..."}}'
    other = b'{"error": {"type": "invalid_request_error", "message": "temperature: too hot"}}'
    assert [TELLING.refused("m", 400, {}, body).too_long for body in (anthropic, openai, other)] == [True, True, False]


def test_our_key_is_in_no_error() -> None:
    error = TELLING.refused("m", 401, {}, b'{"error": {"message": "wrong key sk-secret, or hidden-too"}}')
    assert "***" in error.told
    assert not any(secret in str(error) + repr(error.fields) for secret in ("sk-secret", "hidden-too"))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "\xb2"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:30 GMT", "date": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ],
)
def test_patience_is_read_in_each_of_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
