"""The interface described: an OpenAPI 3.1 document made from the table of endpoints, so that they cannot differ."""

import sys
from collections.abc import Iterable, Sequence
from http import HTTPStatus as S
from typing import Any, Final

import msgspec

from perdure.edge.http import faults as wrong
from perdure.edge.http import shaping
from perdure.edge.http.asgi import JSON
from perdure.edge.http.entrance import COOKIE, OVERRIDE, PLAIN_COOKIE
from perdure.edge.http.problems import MEDIA, PREFIX, Problem
from perdure.edge.http.routes import Endpoint
from perdure.edge.http.views import Events, EventView

Document = dict[str, Any]
EXAMPLE_ID: Final = "0192f0c4-7d1e-7abc-8def-0123456789ab"
_REF: Final = "#/components/schemas/{name}"
_JSON: Final = JSON.decode()
_PROBLEM: Final = MEDIA.decode()
_BINARY: Final = "application/octet-stream"
_EVENTS: Final = "text/event-stream"
_MERGE_PATCH: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_ETAG: Final = '^"[0-9]{1,19}"$'
_SEEN: Final = r'^(\*|(W/)?"[0-9]{1,19}"|[0-9]{1,19})$'

_ABOUT: Final = """Durable sessions for agents, over HTTP.

Errors are problems of RFC 9457: `type` and `code` are stable, `detail` says what to do next, `fields` are the facts.
A write that carries an `Idempotency-Key` can be sent again safely; one that carries `If-Match` is done only if the
session still has the version that was seen. Times are microseconds since 1970, money is micro-dollars, unless a field
says otherwise. Bodies and answers may also be `application/vnd.perdure+json`, in which `{"$bytes": …}` and its like
carry what JSON lacks. Every answer may be 429 with `Retry-After`; what is not there and what is not yours look alike.
"""

_SECURITY: Final[Document] = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer pdk_…`."},
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A session token, which opens one session for minutes, or a token of a configured issuer.",
    },
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key by itself."},
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": f"Someone who signed in by a link; without TLS the cookie is called `{PLAIN_COOKIE}`.",
    },
}


class Also(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint may answer beside what its row says."""

    status: int
    says: str
    media: str | None = None
    """None for the same as its row says; empty for no body."""


ALSO: Final[dict[str, tuple[Also, ...]]] = {
    "get_session": (Also(status=304, says="If-None-Match names the present version", media=""),),
    "read_state": (Also(status=304, says="If-None-Match names the present version", media=""),),
    "resume": (Also(status=201, says="A new session goes on from the checkpoint"),),
    "import_session": (Also(status=200, says="The session was there already, whole"),),
    "get_blob": (Also(status=206, says="The range that was asked for"),),
    "readyz": (Also(status=503, says="Starting or leaving: send work elsewhere"),),
}
"""By operation id."""
STREAMED: Final = frozenset({"read_events", "send_message", "watch_changes"})
"""Operations that answer as server-sent events to those who ask for them."""
LOCATED: Final = frozenset({"create_session", "keep_memory", "put_blob", "resume", "branch", "rewind", "edit"})
"""Operations that say in `Location` where what they made is."""
_UNVERSIONED: Final = "checkpoint_id"
"""A field of answers whose `version` is not the session's present one."""


def describe(endpoints: Iterable[Endpoint], version: str) -> Document:
    """The OpenAPI document of these endpoints."""
    return _Description(tuple(endpoints)).document(version)


def described(endpoints: Iterable[Endpoint], version: str) -> bytes:
    """The document as JSON, the same for the same endpoints."""
    return msgspec.json.encode(describe(endpoints, version))


class _Description:
    """The document as it grows."""

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        self._endpoints = endpoints
        kinds = {id(kind): kind for endpoint in endpoints for kind in _kinds(endpoint)} | {id(Problem): Problem}
        found, components = msgspec.json.schema_components(list(kinds.values()), ref_template=_REF)
        self._components: Document = components
        self._schemas = dict(zip(kinds, found, strict=True))
        self._responses: Document = {}
        self._shared_names: dict[tuple[Any, ...], str] = {}

    def document(self, version: str) -> Document:
        """The whole of it."""
        paths: Document = {}
        for endpoint in self._endpoints:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = self._operation(endpoint)
        queries = {_name(endpoint.query) for endpoint in self._endpoints if endpoint.query is not None}
        bodies = {
            _name(kind) for endpoint in self._endpoints for kind in _kinds(endpoint) if kind is not endpoint.query
        }
        schemas = {name: schema for name, schema in self._components.items() if name not in queries - bodies}
        return {
            "openapi": "3.1.0",
            "info": {"title": "perdure", "version": version, "description": _ABOUT},
            "tags": self._tags(),
            "paths": paths,
            "components": {
                "schemas": {name: _tidy(schema) for name, schema in sorted((schemas | _own()).items())},
                "responses": dict(sorted(self._responses.items())),
                "securitySchemes": _SECURITY,
            },
        }

    def _tags(self) -> list[Document]:
        modules = {endpoint.call.__module__: None for endpoint in self._endpoints}
        return [{"name": _tag(name), "description": _first(_module(name).__doc__)} for name in modules]

    def _operation(self, endpoint: Endpoint) -> Document:
        found: Document = {
            "operationId": endpoint.name,
            "tags": [_tag(endpoint.call.__module__)],
            "summary": endpoint.summary,
        }
        if told := _rest(endpoint.call.__doc__):
            found["description"] = told
        if parameters := self._parameters(endpoint):
            found["parameters"] = parameters
        if endpoint.body is not None:
            found["requestBody"] = self._body(endpoint)
        found["responses"] = self._answers(endpoint)
        inside = endpoint.action is not None or endpoint.known
        found["security"] = [{name: []} for name in _SECURITY] if inside else []
        if endpoint.action is not None:
            found["x-perdure-action"] = str(endpoint.action)
        return found

    # ── what is asked ──

    def _parameters(self, endpoint: Endpoint) -> list[Document]:
        found = [_in_path(name) for name in endpoint.parameters]
        if endpoint.query is not None:
            found += self._in_query(endpoint.query)
        if endpoint.keyed:
            says = "A word of your own for this write: sent again with the same word, it is done once."
            found.append(_header("Idempotency-Key", says, {"type": "string", "minLength": 1, "maxLength": 256}))
        if endpoint.guarded:
            says = "The version that was seen, as an ETag has it: done only if the session still has it."
            found.append(_header("If-Match", says, {"type": "string", "pattern": _SEEN, "examples": ['"12"']}))
        if any(also.status == S.NOT_MODIFIED for also in ALSO.get(endpoint.name, ())):
            says = "A version that is at hand: 304 if there is no other."
            found.append(_header("If-None-Match", says, {"type": "string", "examples": ['"12"']}))
        if any(also.status == S.PARTIAL_CONTENT for also in ALSO.get(endpoint.name, ())):
            found.append(_header("Range", "One range of bytes.", {"type": "string", "examples": ["bytes=0-1023"]}))
        if endpoint.name in STREAMED:
            says = "For a stream: the version of the last event that arrived; it goes on after that."
            found.append(_header("Last-Event-ID", says, {"type": "string", "examples": ["12"]}))
        if endpoint.name in shaping.STREAMS:
            found += shaping.parameters()
        if endpoint.action is not None:
            says = "Why an admin breaks the glass; it is written down. Nobody else need send it."
            found.append(_header(OVERRIDE, says, {"type": "string"}))
        return found

    def _in_query(self, kind: Any) -> list[Document]:
        schema = self._components[_name(kind)]
        required = schema.get("required", [])
        found = []
        for name, inner in schema["properties"].items():
            one: Document = {"name": name, "in": "query", "schema": _unnulled(inner)}
            if name in required:
                one["required"] = True
            found.append(one)
        return found

    def _body(self, endpoint: Endpoint) -> Document:
        example = {} if endpoint.example is None else {"examples": {"one": {"value": endpoint.example}}}
        content: Document = {}
        for media in endpoint.takes:
            if media == _JSON_PATCH:
                patch = [
                    {"op": "replace", "path": f"/{name}", "value": value} for name, value in endpoint.example.items()
                ]
                content[media] = {"schema": _ref("JsonPatch"), "examples": {"one": {"value": patch}}}
            elif media == _MERGE_PATCH or endpoint.body is Any:
                content[media] = {"schema": {"type": "object"}, **example}
            elif endpoint.body is bytes:
                content[media] = {"schema": _bytes(media)}
            else:
                content[media] = {"schema": self._schemas[id(endpoint.body)], **example}
        empty = endpoint.optional or (endpoint.body is bytes and _BINARY in endpoint.takes)  # no bytes are bytes, too
        return {"required": not empty, "content": content}

    # ── what is answered ──

    def _answers(self, endpoint: Endpoint) -> Document:
        found: Document = {str(int(endpoint.status)): self._answer(endpoint, endpoint.summary, None)}
        for also in ALSO.get(endpoint.name, ()):
            found[str(also.status)] = self._answer(endpoint, also.says, also.media)
        if endpoint.form:
            return dict(sorted((found | shaping.responses()).items()))
        found[str(int(S.BAD_REQUEST))] = self._malformed()
        for status, codes in wrong.faults(endpoint, self._endpoints).items():
            spelled_status = str(status)
            if spelled_status not in found:
                found[spelled_status] = self._shared(status, codes)
                continue
            known = self._responses["Malformed"] if status == S.BAD_REQUEST else found[spelled_status]
            content = {**known["content"], _PROBLEM: {"schema": _problem(status, codes)}}
            found[spelled_status] = {**known, "content": content}
        return dict(sorted(found.items()))

    def _answer(self, endpoint: Endpoint, says: str, media: str | None) -> Document:
        found: Document = {"description": says}
        if headers := _answer_headers(endpoint):
            found["headers"] = headers
        if endpoint.answer is None or media == "":
            return found
        if endpoint.answer is bytes:
            # A blob comes as the media type it was put with.
            key = "*/*" if endpoint.media == _BINARY else endpoint.media
            found["content"] = {key: {"schema": _bytes(endpoint.media)}}
        else:
            found["content"] = {endpoint.media: {"schema": self._schemas[id(endpoint.answer)]}}
        if endpoint.name in STREAMED | shaping.STREAMS:
            found["content"][_EVENTS] = {"schema": _bytes(_EVENTS)}
        return found

    def _malformed(self) -> Document:
        self._responses.setdefault(
            "Malformed",
            {
                "description": "The request is not HTTP as the server knows it",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
        )
        return {"$ref": "#/components/responses/Malformed"}

    def _shared(self, status: int, codes: Sequence[str]) -> Document:
        """A problem that other operations have, too, is described once."""
        name = self._shared_names.get((status, *codes))
        if name is None:
            known = sum(place[0] == status for place in self._shared_names)
            name = f"Problem{status}" + (f"-{known + 1}" if known else "")
            self._shared_names[status, *codes] = name
            self._responses[name] = {
                "description": ", ".join(codes),
                "headers": _problem_headers(status),
                "content": {_PROBLEM: {"schema": _problem(status, codes)}},
            }
        return {"$ref": f"#/components/responses/{name}"}


def _kinds(endpoint: Endpoint) -> list[Any]:
    """The types a row speaks of, as far as they have a schema of their own."""
    return [kind for kind in (endpoint.body, endpoint.query, endpoint.answer) if kind not in (None, Any, bytes)]


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


def _module(name: str) -> Any:
    return sys.modules[name]


def _tag(module: str) -> str:
    return module.rpartition(".")[2]


def _first(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _rest(text: str | None) -> str:
    """What a docstring says after its first line."""
    return " ".join((text or "").strip().partition("\n")[2].split())


def _ref(name: str) -> Document:
    return {"$ref": _REF.format(name=name)}


def _bytes(media: str) -> Document:
    """Bytes as they are: text, lines of JSON, a document, events, which have names of their own, or anything."""
    if media in (_JSON, _EVENTS):
        return {"type": "object"} if media == _JSON else {}
    return {"type": "string", "format": "binary"} if media == _BINARY else {"type": "string"}


def _in_path(name: str) -> Document:
    schema: Document = {"type": "string", "minLength": 1}
    if name == "session_id":
        schema = {"type": "string", "format": "uuid", "examples": [EXAMPLE_ID]}
    elif name == "sha256":
        schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _header(name: str, says: str, schema: Document) -> Document:
    return {"name": name, "in": "header", "description": says, "schema": schema}


def _unnulled(schema: Document) -> Document:
    """A field of a query, in which nothing is said by leaving it out."""
    kept = {name: value for name, value in schema.items() if not (name == "default" and value is None)}
    choices = [choice for choice in kept.pop("anyOf", []) if choice != {"type": "null"}]
    return kept | choices[0] if len(choices) == 1 else kept | ({"anyOf": choices} if choices else {})


def _problem(status: int, codes: Sequence[str]) -> Document:
    told = {
        "type": {"enum": [PREFIX + code for code in codes]},
        "code": {"enum": list(codes)},
        "status": {"const": status},
    }
    return {"allOf": [_ref("Problem"), {"type": "object", "properties": told}]}


def _problem_headers(status: int) -> Document:
    found: Document = {}
    if status in (S.TOO_MANY_REQUESTS, S.SERVICE_UNAVAILABLE, S.INSUFFICIENT_STORAGE, S.CONFLICT):
        says = "Seconds after which it is worth asking again."
        found["Retry-After"] = {"description": says, "schema": {"type": "integer", "minimum": 1}}
    if status == S.UNAUTHORIZED:
        found["WWW-Authenticate"] = {"description": "How to come in.", "schema": {"type": "string"}}
    if status == S.METHOD_NOT_ALLOWED:
        found["Allow"] = {"description": "The methods this path takes.", "schema": {"type": "string"}}
    return found


def _answer_headers(endpoint: Endpoint) -> Document:
    found: Document = {}
    fields = getattr(endpoint.answer, "__struct_fields__", ())
    if "version" in fields and _UNVERSIONED not in fields:
        says = "The version the session has now: what `If-Match` takes."
        found["ETag"] = {"description": says, "schema": {"type": "string", "pattern": _ETAG}}
    elif endpoint.answer is bytes and endpoint.media == _BINARY:
        found["ETag"] = {"description": "The content's SHA-256.", "schema": {"type": "string"}}
    if endpoint.name in LOCATED:
        found["Location"] = {"description": "Where what was made is.", "schema": {"type": "string"}}
    if endpoint.sensitive:
        says = "The session token to go on with, if this one was replaced."
        found["X-New-Session-Token"] = {"description": says, "schema": {"type": "string"}}
    return found


def _own() -> Document:
    """Schemas that no struct of ours stands behind, and the problem with every code it can have."""
    every = wrong.codes()
    _, known = msgspec.json.schema_components([Problem, EventView, Events], ref_template=_REF)
    problem, events = known["Problem"], known["Events"]
    events["properties"]["items"]["items"] = _ref("EventView")
    properties = problem["properties"]
    properties["type"] = {"type": "string", "enum": [PREFIX + code for code in every]}
    properties["code"] = _ref("ProblemCode")
    properties["fields"] = {"type": "object"}
    value: Document = {"type": "object", "required": ["op", "path", "value"]}
    source: Document = {"type": "object", "required": ["op", "path", "from"]}
    pointer = {"type": "string", "pattern": "^(/.*)?$"}
    return {
        "Problem": problem,
        "Events": events,
        "EventView": known["EventView"],
        "ProblemCode": {"type": "string", "enum": every, "description": "What went wrong; stable."},
        "JsonPatch": {
            "description": "Operations of RFC 6902, done in order, all or none.",
            "type": "array",
            "items": {
                "oneOf": [
                    value | {"properties": {"op": {"enum": ["add", "replace", "test"]}, "path": pointer, "value": {}}},
                    source | {"properties": {"op": {"enum": ["move", "copy"]}, "path": pointer, "from": pointer}},
                    {
                        "type": "object",
                        "required": ["op", "path"],
                        "properties": {"op": {"const": "remove"}, "path": pointer},
                    },
                ]
            },
        },
    }


def _tidy(schema: Document) -> Document:
    """A schema with its description on one line and without an empty list of what is required."""
    kept = {name: value for name, value in schema.items() if not (name == "required" and not value)}
    return kept | ({"description": " ".join(kept["description"].split())} if "description" in kept else {})
