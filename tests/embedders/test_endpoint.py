"""Vectors from an endpoint: a real server on the loopback device, well-behaved and not."""

import time
from collections.abc import Iterator

import pytest

from perdure.core.errors import (
    Invalid,
    PerdureError,
    ProviderBusy,
    ProviderCut,
    ProviderDenied,
    ProviderDown,
    ProviderGarbled,
    ProviderRefused,
    ProviderSlow,
)
from perdure.embedders.endpoint import Endpoint
from perdure.embedders.making import made
from tests.embedders.answering import KEY, Server, address, answering, nobodys_port


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as server:
        yield server


def test_vectors_come_in_the_order_of_the_texts_and_have_length_one(server: Server) -> None:
    embedder = Endpoint(address(server), "m", key=KEY)
    assert (embedder.dimensions, server.asked) == (0, [])  # nobody is asked before there is something to embed
    rows = embedder.embed(["", "twelve chars"])
    assert embedder.dimensions == 3
    assert rows[1] == pytest.approx([3 / 13, 4 / 13, 12 / 13])
    assert sum(value * value for value in rows[0]) == pytest.approx(1)
    assert server.asked[-1]["path"] == "/v1/embeddings"
    assert server.asked[-1]["model"] == "m"
    assert server.keys[-1] == f"Bearer {KEY}"


def test_many_texts_are_asked_for_in_batches(server: Server) -> None:
    embedder = Endpoint(address(server), "m", dimensions=3)
    assert server.asked == []
    assert len(embedder.embed([str(at) for at in range(300)])) == 300
    assert [len(each["input"]) for each in server.asked] == [128, 128, 44]


def test_who_reads_less_is_given_the_beginning_of_long_texts(server: Server) -> None:
    server.behave = "short"
    embedder = Endpoint(address(server), "m")
    assert len(embedder.embed(["x" * 9_000, "short"])) == 2
    assert [len(text) for text in server.asked[-1]["input"]] == [2_000, 5]
    server.behave, server.asked[:] = "400", []
    for text, often in (("short", 1), ("x" * 9_000, 4)):
        with pytest.raises(ProviderRefused):
            embedder.embed([text])
        assert len(server.asked) == often
        server.asked.clear()


def test_its_name_tells_where_and_what_but_no_secret(server: Server) -> None:
    embedder = made(f"http://user:pass@127.0.0.1:{server.server_port}/v1#m", key=KEY)
    assert embedder is not None
    assert embedder.name == f"{address(server)}#m"


@pytest.mark.parametrize(
    ("behave", "error"),
    [
        ("400", ProviderRefused),
        ("401", ProviderDenied),
        ("404", ProviderRefused),
        ("429", ProviderBusy),
        ("500", ProviderDown),
        ("503", ProviderBusy),
        ("301", ProviderDown),
        ("garbled", ProviderGarbled),
        ("fewer", ProviderGarbled),
        ("other size", ProviderGarbled),
        ("huge", ProviderGarbled),
        ("no protocol", ProviderCut),
        ("drip", ProviderSlow),
        ("slow", ProviderSlow),
        ("cut", ProviderCut),
    ],
)
def test_a_failure_is_told_as_what_it_is(server: Server, behave: str, error: type[PerdureError]) -> None:
    embedder = Endpoint(address(server), "m", key=KEY, dimensions=3, timeout=0.3)
    server.behave = behave
    with pytest.raises(error) as failed:
        embedder.embed(["Ana's diagnosis", "Ana's address"])
    assert failed.value.fields["provider"] == embedder.name
    for secret in (KEY, "Ana"):  # an endpoint may repeat what it was given
        assert secret not in failed.value.message + repr(failed.value.fields)
    if behave.isdigit():
        assert f"status {behave}" in failed.value.message or error is ProviderDenied
    if behave == "429":
        assert failed.value.fields["retry_after"] == 7


def test_the_first_answer_says_how_many_numbers_a_vector_has(server: Server) -> None:
    embedder = Endpoint(address(server), "m")
    embedder.embed(["one"])
    server.behave = "other size"
    with pytest.raises(ProviderGarbled):
        embedder.embed(["two"])
    assert Endpoint(address(server), "m").embed(["two"]) == [[1.0]]


def test_nobody_there_is_told_when_it_is_asked() -> None:
    embedder = Endpoint(address(nobodys_port()), "m")
    with pytest.raises(ProviderDown):
        embedder.embed(["one"])


@pytest.mark.parametrize(("key", "said"), [("", "wants a key"), ("sk-wrong", "does not take our key")])
def test_who_is_denied_is_told_where_the_key_goes(server: Server, key: str, said: str) -> None:
    server.behave = "guarded"
    with pytest.raises(ProviderDenied, match=f"{said}.*key_env"):
        Endpoint(address(server), "m", key=key).embed(["one"])
    Endpoint(address(server), "m", key=KEY).embed(["one"])


@pytest.mark.parametrize(
    "where",
    [
        "https://[::1/v1",
        "http://host:port/v1",
        "http://host:99999/v1",
        "http://host:0",
        "http://127.0.0.1/ü",
        "http://127.0.0.1/a b",
        "http://.example/v1",
        "http://ex ample/v1",
        "http://ex\x00ample/v1",
        f"http://{'a' * 70}.example/v1",
    ],
)
def test_an_address_at_which_nobody_can_be_asked_is_told(where: str) -> None:
    with pytest.raises(Invalid, match="https://host/v1#model"):
        Endpoint(where, "m")


@pytest.mark.parametrize(
    "where", ["http://bücher.example/v1", "http://[::1]:9/v1", "http://my_host:9", "https://h./%20"]
)
def test_an_address_at_which_somebody_may_be_asked_is_taken(where: str) -> None:
    assert Endpoint(where, "m").name == f"{where}#m"


def test_an_address_that_is_refused_is_told_without_what_is_secret_in_it() -> None:
    with pytest.raises(Invalid) as wrong:
        Endpoint(f"http://ana:{KEY}@ex ample/v1?key={KEY}", "m")
    assert KEY not in wrong.value.message + repr(wrong.value.fields)


def test_white_space_around_a_key_is_none_of_it(server: Server) -> None:
    server.behave = "guarded"
    assert len(Endpoint(address(server), "m", key=f" {KEY}\r\n").embed(["one"])) == 1


@pytest.mark.parametrize("key", [f"{KEY}\nmore", f"{KEY}☃", f"{KEY}é", f"{KEY}\x00", f"{KEY}\udcff"])
def test_a_key_that_no_request_can_carry_is_told_and_not_shown(key: str) -> None:
    with pytest.raises(Invalid) as wrong:
        Endpoint("http://127.0.0.1:9/v1", "m", key=key)
    assert KEY not in wrong.value.message + repr(wrong.value.fields)


@pytest.mark.parametrize("after", ["\xb2", "9" * 400, "soon", "-1", "", "1e5"])
def test_patience_that_is_no_number_of_seconds_is_none(server: Server, after: str) -> None:
    server.behave, server.after = "429", after
    with pytest.raises(ProviderBusy) as busy:
        Endpoint(address(server), "m").embed(["one"])
    assert busy.value.fields["retry_after"] is None


def test_who_answers_byte_by_byte_is_not_listened_to_for_ever(server: Server) -> None:
    server.behave = "drip"
    since = time.monotonic()
    with pytest.raises(ProviderSlow):
        Endpoint(address(server), "m", timeout=0.3).embed(["one"])
    assert time.monotonic() - since < 3


def test_half_a_sign_is_sent_as_what_can_be_sent(server: Server) -> None:
    Endpoint(address(server), "m").embed(["half \ud83d"])
    assert server.asked[-1]["input"] == ["half ?"]
