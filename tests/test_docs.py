"""Pages that are drawn from code say what the code says."""

import json
import re
from pathlib import Path

from perdure.core.session import chain, codec
from perdure.core.session.kinds import KINDS
from perdure.core.session.lifecycle import diagram
from perdure.core.session.turns import Message, TurnStarted
from perdure.edge.http.building import endpoints

ROOT = Path(__file__).parent.parent


def test_the_lifecycle_diagram_is_drawn_from_the_table() -> None:
    assert diagram() in (ROOT / "docs" / "ARCHITECTURE.md").read_text()


def test_the_format_page_lists_every_event_kind() -> None:
    page = (ROOT / "docs" / "FORMAT.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []


def test_the_golden_vectors_on_the_format_page_hold() -> None:
    page = (ROOT / "docs" / "FORMAT.md").read_text()
    session, parent, blind = bytes.fromhex("0192f0c47d1e7abc8def0123456789ab"), bytes(range(32)), bytes(range(16))
    at = 1_700_000_000_000_000
    said = codec.encode_struct(Message(role="user", content="hi"))
    started = codec.encode_struct(TurnStarted())
    one = chain.header_bytes("local", session, 1, session, "message", 1, at, "local", *[None] * 4, 0, None)
    following = session[:-1] + b"\xac"
    two = chain.header_bytes(
        "local", session, 2, following, "turn_started", 1, at, "local", "planner", None, None, 1, 0, "key-1"
    )
    first = chain.link(chain.genesis(session), one, chain.commitment(blind, said))
    second = chain.link(first, two, chain.commitment(blind, started))
    vectors = [
        chain.genesis(session),
        chain.genesis(session, parent),
        said,
        chain.commitment(blind, said),
        one,
        first,
        started,
        two,
        second,
    ]
    assert [vector.hex() for vector in vectors if f"`{vector.hex()}`" not in page] == []


def bodies() -> list[str]:
    """What requests carry, as docs/SERVER.md lists it: an example of each, and the fields that are not in it."""
    rows = list[str]()
    for endpoint in endpoints():
        if endpoint.body is None or endpoint.body is bytes:
            continue
        example = endpoint.example or {}
        fields = getattr(endpoint.body, "__struct_fields__", ())
        more = ", ".join(f"`{name}`" for name in fields if name not in example)
        place = f"{endpoint.method} {endpoint.path.removeprefix('/v1').replace('{session_id}', '{id}')}"
        spelled = json.dumps(example, ensure_ascii=False) if example else ""
        rows.append(f"| `{place}` | {f'`{spelled}`' if spelled else 'none needed'} | {more} |")
    return rows


def test_the_server_page_shows_every_body() -> None:
    page = (ROOT / "docs" / "SERVER.md").read_text()
    assert [row for row in bodies() if row not in page] == []


def test_the_bodies_shown_are_taken() -> None:
    for endpoint in endpoints():
        if endpoint.decoder is not None and endpoint.example is not None:
            endpoint.decoder.decode(json.dumps(endpoint.example))


def test_the_server_page_names_every_path() -> None:
    """A path is named whole, or below the row's first one after an ellipsis."""
    page = (ROOT / "docs" / "SERVER.md").read_text()
    for endpoint in endpoints():
        path = re.sub(r"\{[a-z0-9_]+\}", "{…}", endpoint.path.removeprefix("/v1"))
        shown = re.sub(r"\{[a-z0-9_]+\}", "{…}", page)
        below = path.removeprefix("/sessions/{…}")
        assert path in shown or f"…{below}" in shown, endpoint.path


def test_no_example_of_the_shell_needs_a_new_curl_or_repeats_a_key() -> None:
    """`--json` is new in curl 7.82; one idempotency key for two bodies is a conflict."""
    keys = list[str]()
    for name in ("README.md", "docs/SERVER.md"):
        page = (ROOT / name).read_text()
        assert "--json '" not in page
        keys += re.findall(r"Idempotency-Key: ([\w-]+)", page)
    assert keys
    assert len(keys) == len(set(keys))


def test_the_bodies_that_curl_sends_are_json() -> None:
    page = (ROOT / "docs" / "SERVER.md").read_text() + (ROOT / "README.md").read_text()
    sent = re.findall(r"-d '(\{.*?\})'", page, re.DOTALL)
    assert sent
    for body in sent:
        json.loads(body)
