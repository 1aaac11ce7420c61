"""Errors as a client of Anthropic's or OpenAI's expects them, whole or in the middle of a stream.

An account that has nothing left is 402, which the official clients do not try again; what a provider does wrong is 429,
502, 503, 504 or 529, which they do, when `retry-after` says so. Of what is inside nothing is told: a provider's own
words are, where it says that the request is wrong.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from perdure.core import errors
from perdure.core.errors import PerdureError
from perdure.core.talk.routes import Form
from perdure.edge.http.asgi import Answer, Headers
from perdure.edge.http.problems import RETRY
from perdure.edge.http.routes import Endpoint

EITHER: Final = "models"
"""The form of an endpoint that both have: whose it is, a header tells."""
VERSION: Final = "anthropic-version"
OVERLOADED: Final = 529
"""Anthropic's own status."""
STREAMS: Final = frozenset({"create_message", "create_chat_completion", "create_response"})
"""Operations that answer in pieces to those who ask for it in the body."""

STATUS: Final[dict[type[PerdureError], int]] = {
    PerdureError: 500,
    errors.CallerError: 400,
    errors.TooLarge: 413,
    errors.NotFound: 404,
    errors.Refused: 409,
    errors.NotOwner: 403,
    errors.Unauthenticated: 401,
    errors.Denied: 403,
    errors.RateLimited: 429,
    errors.BudgetExhausted: 402,
    errors.ConflictError: 409,
    errors.WorldError: 503,
    errors.ProviderFailed: 502,
    errors.ProviderBusy: 503,
    errors.ProviderSlow: 504,
}
"""The nearest class on the way up the tree decides."""
_CODES: Final[dict[type[PerdureError], tuple[str, str]]] = {
    errors.UnknownModel: ("invalid_request_error", "model_not_found"),
    errors.PromptTooLong: ("invalid_request_error", "context_length_exceeded"),
    errors.BudgetExhausted: ("insufficient_quota", "insufficient_quota"),
    errors.RateLimited: ("rate_limit_error", "rate_limit_exceeded"),
    errors.Unauthenticated: ("invalid_request_error", "invalid_api_key"),
}
"""OpenAI's own words for some errors: type and code."""
_WORDS: Final[dict[type[PerdureError], str]] = {
    errors.ProviderDenied: "the model's provider does not let this server in; whoever runs it must see to that",
    errors.ProviderBusy: "the model's provider has too much to do; ask again later",
    errors.ProviderSlow: "the model's provider did not answer in time; ask again later",
    errors.ProviderDown: "the model's provider does not serve; ask again later",
    errors.ProviderCut: "the model's answer broke off in the middle; ask again",
    errors.ProviderFailed: "the model's provider gave no answer; ask again later",
    errors.WorldError: "the server cannot do this right now; ask again later",
}
_REQUEST_LINE: Final = range(400, 500)
_STAINLESS: Final = re.compile("x-stainless-.*")
"""Headers that the official clients send, whatever agent they are said to be."""
_STANDING_IN: Final = ("/messages", "/chat/completions", "/responses", "/models")
"""What stands in for a provider's endpoints, without /v1."""
_LASTING: Final = (errors.ProviderGarbled, errors.ProviderDenied)
"""What a provider does wrong until somebody corrects its address, its kind or its key."""
_PROVIDERS_OWN: Final = frozenset({400, 404, 413, 422})
"""Statuses of a provider's that are about the request, and so the client's to hear."""


class Shape(NamedTuple):
    """An error as it is told: `code` and `kind` are OpenAI's, `type` is Anthropic's, empty for the usual one."""

    status: int
    message: str
    type: str = ""
    kind: str = ""
    code: str | None = None


def spoken(endpoint: Endpoint, headers: Mapping[str, str]) -> Form:
    """The wire form that a client of an endpoint expects."""
    if endpoint.form == EITHER:
        return "anthropic" if VERSION in headers else "openai-chat"
    form: Form = endpoint.form  # type: ignore[assignment]
    return form


def shaped(form: Form, error: PerdureError) -> Shape:
    """What a client is told of an error."""
    kind = type(error)
    status = next(STATUS[cls] for cls in kind.__mro__ if cls in STATUS)
    named, code = next((_CODES[cls] for cls in kind.__mro__ if cls in _CODES), ("", error.code))
    message = error.message
    if isinstance(error, errors.WorldError):
        message = next(_WORDS[cls] for cls in kind.__mro__ if cls in _WORDS)
    if isinstance(error, errors.ProviderRefused):
        message = error.fields.get("told") or message
        theirs = error.fields.get("status")
        status = theirs if theirs in _PROVIDERS_OWN else status
        code = "context_length_exceeded" if error.fields.get("too_long") else error.fields.get("type") or code
    if isinstance(error, errors.ProviderBusy):
        busy = OVERLOADED if form == "anthropic" else status
        status = 429 if error.fields.get("status") == 429 else busy
        code = "rate_limit_exceeded" if status == 429 else "server_overloaded"
    return Shape(status, message, kind=named, code=code)


def document(form: Form, shape: Shape) -> dict[str, Any]:
    """An error in its wire form."""
    if form == "anthropic":
        from perdure.core.talk import anthropic

        return anthropic.error_to(shape.status, shape.type, shape.message)
    from perdure.core.talk import chat

    found = chat.error_to(shape.status, shape.kind, shape.message)
    found["error"]["code"] = shape.code
    return found


def told(form: Form, error: PerdureError) -> Answer:
    """An error as an answer."""
    shape = shaped(form, error)
    headers: Headers = [(b"cache-control", b"no-store")]
    wait = error.fields.get("retry_after", RETRY.get(type(error)))
    if wait is not None:
        headers.append((b"retry-after", str(max(1, int(-(-wait // 1)))).encode()))
    elif isinstance(error, _LASTING) or (shape.status in _REQUEST_LINE and not isinstance(error, errors.ConflictError)):
        headers.append((b"x-should-retry", b"false"))  # what the official clients go by, before the status
    if shape.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="perdure"'))
    return Answer(shape.status, msgspec.json.encode(document(form, shape)), headers=headers)


def visitor(headers: Mapping[str, str]) -> Form:
    """The wire form of the official client that sent a request; "" for anybody else."""
    agent = headers.get("user-agent", "").lower().removeprefix("async")
    if VERSION in headers or agent.startswith("anthropic"):
        return "anthropic"
    return "openai-chat" if agent.startswith("openai") or any(map(_STAINLESS.fullmatch, headers)) else ""


def nowhere(form: Form, method: str, path: str, methods: Sequence[str]) -> Answer:
    """What an official client is told that asks for what is not here: what its base URL must be, or what there is."""
    status = 405 if methods else 404
    headers: Headers = [(b"allow", ", ".join(methods).encode())] if methods else []
    found = document(form, Shape(status, _way(method, path), code="method_not_allowed" if methods else "no_such_path"))
    return Answer(status, msgspec.json.encode(found), headers=headers)


def _way(method: str, path: str) -> str:
    rest = "/" + path.strip("/").replace("v1/v1/", "v1/").removeprefix("v1/")
    asked = f"{method} {path[:200]} is not here"
    if rest.startswith(_STANDING_IN):
        if path.startswith("/v1/v1/"):
            return f"{asked}: /v1 is there twice; leave it out of the end of base_url (Anthropic's clients add it)"
        if not path.startswith("/v1/"):
            return f"{asked}: base_url must end in /v1 for OpenAI's clients, and be the bare address for Anthropic's"
    if rest.startswith("/responses/"):
        return f"{asked}: answers cannot be fetched by their ids; send the whole history, or see the session's log"
    return f"{asked}; here are POST {', '.join(f'/v1{known}' for known in _STANDING_IN[:-1])}, and GET /v1/models"


def unexpected(form: Form, message: str) -> Answer:
    """What nobody thought of, as an answer."""
    return Answer(500, msgspec.json.encode(document(form, Shape(500, message, code="unexpected"))))


def broken(form: Form, error: PerdureError) -> bytes:
    """An error in the middle of a stream."""
    from perdure.core.talk.wire import frame

    shape = shaped(form, error)
    if form == "openai-responses":
        body = {"type": "error", "code": shape.code, "message": shape.message, "param": None, "sequence_number": 0}
        return frame(body, "error")
    return frame(document(form, shape), "error" if form == "anthropic" else "")


def known(code: str, detail: str, fields: dict[str, Any]) -> PerdureError:
    """An error that is known by its code alone."""
    kinds = [PerdureError]
    for kind in kinds:
        if kind.code == code:
            break
        kinds += kind.__subclasses__()
    else:
        kind = errors.TurnRefused
    return kind(detail, **fields)


# ── as the OpenAPI document tells it ──

Document = dict[str, Any]
_HEADERS: Final = {
    "perdure-session": "The session: its id, or its name, which makes one that is not there. None: pass-through.",
    "perdure-mode": "`record` (the model gets what the client sent) or `manage` (it gets the session's own context).",
    "perdure-diverge": "What becomes of a history that departs from the session's: `branch` or `reject`.",
    "perdure-agent": "Which agent this is for.",
    "perdure-strategy": "Which strategy this is for.",
    "perdure-cache": "With `manage`: whether an earlier answer will do: `off`, `exact` or `semantic`.",
}
_WORDS_OF: Final = {
    "perdure-mode": ("record", "manage"),
    "perdure-diverge": ("branch", "reject"),
    "perdure-cache": ("off", "exact", "semantic"),
}
_PROBLEM: Final = "application/problem+json"
_TOLD: Final = (400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504, OVERLOADED)


def parameters() -> list[Document]:
    """The headers in which a client may say more."""
    return [
        {"name": name, "in": "header", "description": says, "schema": {"type": "string", **_choices(name)}}
        for name, says in _HEADERS.items()
    ]


def _choices(name: str) -> Document:
    return {"enum": list(_WORDS_OF[name])} if name in _WORDS_OF else {}


def responses() -> Document:
    """What goes wrong, by status: an object with an `error` in it, and a problem where the request is none of ours."""
    inner = {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}}
    schema = {"type": "object", "required": ["error"], "properties": {"error": inner}}
    content: Document = {"application/json": {"schema": schema}}
    found = {str(status): {"description": "An error in the client's wire form", "content": content} for status in _TOLD}
    found["400"] = {**found["400"], "content": {**content, "text/plain": {"schema": {"type": "string"}}}}
    for status, says in (("415", "The body is no JSON"), ("421", "The server does not go by that name")):
        problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
        found[status] = {"description": says, "content": {_PROBLEM: problem}}
    return found
