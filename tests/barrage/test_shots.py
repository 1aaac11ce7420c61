"""A taste of `make barrage`: a real server under malformed input, and proof that a fault would be noticed."""

import random

import pytest

from barrage import bodies, malformed
from barrage.judge import judged
from barrage.operations import Operations, Pool
from barrage.run import Options, run
from barrage.wire import Reply
from perdure import __version__
from perdure.edge.http.building import endpoints
from perdure.edge.http.openapi import describe

STORE = b"the folder of the store"
PROBLEM = {"content-type": "application/problem+json"}


def verdict(reply: Reply, *, readable: bool = True) -> str | None:
    return judged(reply, "an input", b"GET / HTTP/1.1", readable=readable, store=STORE)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(hung=True),
        Reply(500, PROBLEM, b"{}"),
        Reply(502, PROBLEM, b"{}"),
        Reply(0),
        Reply(422, {"content-type": "text/html"}, b"<p>no</p>"),
        Reply(422, PROBLEM, b'{"detail": "Traceback (most recent call last)"}'),
        Reply(422, PROBLEM, b'{"detail": "perdure.core.errors"}'),
        Reply(422, PROBLEM, b'{"detail": "RecursionError"}'),
        Reply(422, PROBLEM, b'{"detail": "SELECT seq FROM events"}'),
        Reply(422, PROBLEM, b'{"detail": "' + STORE + b'"}'),
        Reply(200, {}, b"<perdure object at 0x7f00>"),
    ],
)
def test_what_must_not_be_is_noticed(reply: Reply) -> None:
    assert verdict(reply) is not None


@pytest.mark.parametrize(
    "reply", [Reply(422, PROBLEM, b'{"detail": "Expected `int`"}'), Reply(503, PROBLEM), Reply(204)]
)
def test_what_may_be_passes(reply: Reply) -> None:
    assert verdict(reply) is None


def test_what_is_no_http_may_be_cut_off() -> None:
    assert verdict(Reply(0), readable=False) is None


def operations() -> Operations:
    pool = Pool(key="pdk_abc", host="127.0.0.1:1", sessions=["0192f0c4-7d1e-7abc-8def-0123456789ab"], cursors=["abc"])
    return Operations(describe(endpoints(), __version__), pool)


def test_an_input_is_a_function_of_seed_and_number() -> None:
    made = operations()
    for number in range(300):
        one, two = (made.shot(random.Random(f"7:{number}")) for _ in range(2))
        assert one == two
        chances = (random.Random(f"7:{number}") for _ in range(2))
        raw, again = (malformed.broken(chance, "h", "k", ["/v1/sessions"]) for chance in chances)
        assert raw == again


def test_every_operation_is_shot_at_in_every_way() -> None:
    made = operations()
    shots = [made.shot(random.Random(number)) for number in range(6_000)]
    assert {shot.kind for shot in shots} == {
        "field", "json", "place", "query", "credential", "header", "media", "method",
    }  # fmt: skip
    aimed = {row.name for row in endpoints()} - {shot.operation for shot in shots}
    assert aimed == {"erase_person", "revoke_key", "sign_out"}


def test_a_small_document_fits_the_schema_it_is_made_from() -> None:
    schemas = describe(endpoints(), __version__)["components"]["schemas"]
    assert bodies.fitting(schemas["ReserveBody"], schemas) == {"name": "a", "amount": 0}


@pytest.mark.slow
def test_a_server_withstands_a_small_barrage() -> None:
    tally = run(Options(seed=20_261, inputs=1_500, minutes=2), lambda line: None)
    assert tally.problems == []
    assert tally.total == 1_500
    assert tally.answers[422] > 100
