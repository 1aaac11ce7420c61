"""Pages that are drawn from code say what the code says."""

from pathlib import Path

from perdure.core.session import chain, codec
from perdure.core.session.kinds import KINDS
from perdure.core.session.lifecycle import diagram
from perdure.core.session.turns import Message, TurnStarted

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
