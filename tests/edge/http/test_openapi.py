"""The description of the HTTP interface: whole, valid, and true to the table it is made from."""

from functools import cache
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from perdure.core import errors
from perdure.edge.http import faults, openapi, shaping
from perdure.edge.http.building import endpoints
from perdure.edge.http.problems import PREFIX, status_of
from perdure.edge.http.routes import Endpoint

ROWS = {endpoint.name: endpoint for endpoint in endpoints()}


@cache
def document() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(openapi.described(endpoints(), "1.2.3"))
    return found


def operation(endpoint: Endpoint) -> dict[str, Any]:
    found: dict[str, Any] = document()["paths"][endpoint.path][endpoint.method.lower()]
    return found


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to."""
    if "$ref" not in node:
        return node
    found = document()
    for piece in node["$ref"].removeprefix("#/").split("/"):
        found = found[piece]
    return found


def validator(schema: dict[str, Any]) -> Any:
    """A validator of one schema, which may point to any other of the document."""
    return jsonschema_rs.Draft202012Validator({**schema, "components": document()["components"]})


def walk(node: Any) -> Any:
    yield node
    if isinstance(node, dict):
        for inner in node.values():
            yield from walk(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from walk(inner)


def test_the_document_is_valid_openapi() -> None:
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(document())] == []


def test_the_document_is_the_same_every_time() -> None:
    assert openapi.described(endpoints(), "1.2.3") == openapi.described(endpoints(), "1.2.3")


def test_every_endpoint_is_described_and_nothing_else_is() -> None:
    described = {
        (path, method.upper(), found["operationId"])
        for path, methods in document()["paths"].items()
        for method, found in methods.items()
    }
    assert described == {(row.path, row.method, row.name) for row in endpoints()}


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len(ROWS) == len(endpoints())


def test_no_schema_goes_by_the_place_of_its_code() -> None:
    """Two structs of one name would be told apart by their modules, which are nobody's business."""
    assert [name for name in document()["components"]["schemas"] if "." in name] == []


def test_every_reference_leads_somewhere() -> None:
    for node in walk(document()):
        if isinstance(node, dict) and isinstance(node.get("$ref"), str):
            assert resolved(node)


def test_every_schema_that_is_kept_is_used() -> None:
    used = {node["$ref"] for node in walk(document()) if isinstance(node, dict) and isinstance(node.get("$ref"), str)}
    kept = document()["components"]
    assert {f"#/components/schemas/{name}" for name in kept["schemas"]} - used == set()
    assert {f"#/components/responses/{name}" for name in kept["responses"]} - used == set()


def examples() -> list[tuple[str, str]]:
    return [
        (row.name, media)
        for row in endpoints()
        if row.body is not None
        for media, content in operation(row)["requestBody"]["content"].items()
        if "examples" in content
    ]


@pytest.mark.parametrize(("name", "media"), examples())
def test_every_example_fits_its_own_schema(name: str, media: str) -> None:
    content = operation(ROWS[name])["requestBody"]["content"][media]
    validator(content["schema"]).validate(content["examples"]["one"]["value"])


def test_every_body_that_must_be_sent_has_an_example() -> None:
    bare = [row.name for row in endpoints() if row.decoder is not None and not row.optional and row.example is None]
    assert bare == []


@pytest.mark.parametrize("name", [row.name for row in endpoints() if row.example is not None and row.decoder])
def test_every_example_is_what_the_server_takes(name: str) -> None:
    row = ROWS[name]
    assert row.decoder.decode(msgspec.json.encode(row.example)) is not None


def test_every_code_of_the_tree_and_of_the_edge_is_told() -> None:
    every = {kind.code for kind in faults.tree(errors.PerdureError)} | set(faults.EDGE)
    schemas = document()["components"]["schemas"]
    assert set(schemas["ProblemCode"]["enum"]) == every
    assert set(schemas["Problem"]["properties"]["type"]["enum"]) == {PREFIX + code for code in every}


@pytest.mark.parametrize("name", ROWS)
def test_what_a_row_names_as_its_errors_stands_under_its_status(name: str) -> None:
    row = ROWS[name]
    for declared in row.errors:
        for kind in faults.tree(declared):
            answer = resolved(operation(row)["responses"][str(int(status_of(kind)))])
            schema = answer["content"]["application/problem+json"]["schema"]
            body = {
                "type": PREFIX + kind.code,
                "code": kind.code,
                "status": int(status_of(kind)),
                "title": "",
                "detail": "",
            }
            validator(schema).validate(body)
            assert not validator(schema).is_valid(body | {"type": PREFIX + "nobody_said_this"})


def codes(row: Endpoint, status: int) -> list[str]:
    found = operation(row)["responses"].get(str(status))
    if found is None:
        return []
    schema = resolved(found)["content"]["application/problem+json"]["schema"]
    told: list[str] = schema["allOf"][1]["properties"]["code"]["enum"]
    return told


@pytest.mark.parametrize("name", [row.name for row in endpoints() if not row.form])
def test_what_any_request_can_meet_is_told(name: str) -> None:
    row = ROWS[name]
    inside = row.action is not None or row.known
    assert ("unauthenticated" in codes(row, 401)) >= inside
    assert bool(operation(row)["security"]) == inside
    assert ("denied" in codes(row, 403)) >= (row.action is not None)
    assert ("not_found" in codes(row, 404)) >= bool(row.parameters)
    assert ("too_large" in codes(row, 413)) == (row.body is not None)
    assert ("unsupported_media_type" in codes(row, 415)) == (row.body not in (None, bytes))
    assert "wrong_host" in codes(row, 421)
    assert "invalid" in codes(row, 422)
    assert "rate_limited" in codes(row, 429)
    assert ("store_busy" in codes(row, 503)) >= inside
    assert ("disk_full" in codes(row, 507)) >= (inside and row.method != "GET")
    assert ("key_reused" in codes(row, 422)) >= row.keyed
    assert ("version_conflict" in codes(row, 409)) >= row.guarded


@pytest.mark.parametrize("name", [row.name for row in endpoints() if row.form])
def test_what_stands_in_for_a_providers_endpoint_tells_errors_in_its_form(name: str) -> None:
    answers = operation(ROWS[name])["responses"]
    for kind in faults.tree(errors.PerdureError):
        for form in ("anthropic", "openai-chat", "openai-responses"):
            shape = shaping.shaped(form, kind("words", status=429))
            schema = answers[str(shape.status)]["content"]["application/json"]["schema"]
            validator(schema).validate(shaping.document(form, shape))
    assert {"415", "421"} <= answers.keys()
    assert bool(operation(ROWS[name])["security"])


def headers(row: Endpoint) -> set[str]:
    return {one["name"] for one in operation(row).get("parameters", []) if one["in"] == "header"}


@pytest.mark.parametrize("name", ROWS)
def test_the_headers_a_row_takes_are_told(name: str) -> None:
    row = ROWS[name]
    assert ("Idempotency-Key" in headers(row)) == row.keyed
    assert ("If-Match" in headers(row)) == row.guarded
    assert ("perdure-override" in headers(row)) == (row.action is not None)


@pytest.mark.parametrize("name", [row.name for row in endpoints() if row.query is not None])
def test_the_query_goes_by_the_names_that_are_sent(name: str) -> None:
    row = ROWS[name]
    told = [one for one in operation(row)["parameters"] if one["in"] == "query"]
    assert row.query is not None
    assert [one["name"] for one in told] == list(row.query.__struct_encode_fields__)
    assert all({"type": "null"} not in one["schema"].get("anyOf", []) for one in told)


@pytest.mark.parametrize("name", sorted({*openapi.ALSO, *openapi.STREAMED, *openapi.LOCATED}))
def test_what_is_told_beside_the_rows_is_of_rows_that_exist(name: str) -> None:
    assert name in ROWS


def test_a_word_that_shadows_a_path_is_known_to_lead_to_405() -> None:
    assert codes(ROWS["get_session"], 405) == ["method_not_allowed"]
    assert codes(ROWS["list_sessions"], 405) == []


def test_bytes_are_described_as_what_they_are() -> None:
    put = operation(ROWS["put_blob"])["requestBody"]["content"]
    assert put == {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    assert list(operation(ROWS["get_blob"])["responses"]["200"]["content"]) == ["*/*"]
    assert list(operation(ROWS["export_session"])["responses"]["200"]["content"]) == ["application/x-ndjson"]
    assert set(operation(ROWS["read_events"])["responses"]["200"]["content"]) == {
        "application/json",
        "text/event-stream",
    }
    assert "content" not in operation(ROWS["drop_checkpoint"])["responses"]["204"]


def test_whatever_can_be_asked_for_as_a_stream_is_described_as_one() -> None:
    asking = [
        row
        for row in ROWS.values()
        if isinstance(row.body, type) and "stream" in getattr(row.body, "__struct_fields__", ())
    ]
    assert [row.name for row in asking] == ["send_message"]
    for row in asking:
        assert set(operation(row)["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
