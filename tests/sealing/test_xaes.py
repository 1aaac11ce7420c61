"""XAES-256-GCM is the cipher that C2SP publishes, vector by vector."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.exceptions import InvalidTag

from perdure.sealing.xaes import Xaes

NONCE = b"ABCDEFGHIJKLMNOPQRSTUVWX"
PLAIN = b"XAES-256-GCM"
VECTORS = [
    # Between them the two keys take both ways through the doubling of CMAC's subkey.
    (b"\x01" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
    (b"\x03" * 32, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
]
ACCUMULATED = {
    10_000: "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939",
    1_000_000: "2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15",
}


@pytest.mark.parametrize(("key", "bound", "sealed"), VECTORS)
def test_the_published_vectors_hold(key: bytes, bound: bytes, sealed: str) -> None:
    cipher = Xaes(key)
    assert cipher.seal(NONCE, PLAIN, bound).hex() == sealed
    assert cipher.open(NONCE, bytes.fromhex(sealed), bound) == PLAIN


def stream(chunk: int = 1 << 20) -> Iterator[int]:
    """The bytes of SHAKE-128 over nothing, without end. The standard library gives only a beginning of a given length,
    so each stretch costs the ones before it again: hence long ones.
    """
    sponge, at = hashlib.shake_128(), 0
    while True:
        chunk = max(chunk, at)
        yield from memoryview(sponge.digest(at + chunk))[at:]
        at += chunk


def accumulated(rounds: int) -> str:
    drawn, heard = stream(), hashlib.shake_128()

    def take(count: int) -> bytes:
        return bytes(next(drawn) for _ in range(count))

    for _ in range(rounds):
        key, nonce = take(32), take(24)
        plain = take(take(1)[0])
        bound = take(take(1)[0])
        cipher = Xaes(key)
        sealed = cipher.seal(nonce, plain, bound)
        assert cipher.open(nonce, sealed, bound) == plain
        heard.update(sealed)
    return heard.hexdigest(32)


def test_ten_thousand_accumulated_vectors_hold() -> None:
    assert accumulated(10_000) == ACCUMULATED[10_000]


@pytest.mark.slow
@pytest.mark.skipif("PERDURE_LONG" not in os.environ, reason="takes minutes; set PERDURE_LONG=1 for it")
def test_a_million_accumulated_vectors_hold() -> None:
    assert accumulated(1_000_000) == ACCUMULATED[1_000_000]


def test_another_bound_key_or_nonce_does_not_open() -> None:
    sealed = Xaes(b"\x01" * 32).seal(NONCE, PLAIN, b"here")
    for key, nonce, bound in (
        (b"\x01" * 32, NONCE, b"there"),
        (b"\x02" * 32, NONCE, b"here"),
        (b"\x01" * 32, b"B" + NONCE[1:], b"here"),
        (b"\x01" * 32, NONCE[:-1] + b"Y", b"here"),
    ):
        with pytest.raises(InvalidTag):
            Xaes(key).open(nonce, sealed, bound)


def test_one_key_serves_many_threads() -> None:
    cipher = Xaes(b"\x07" * 32)

    def both_ways(number: int) -> bool:
        nonce, plain = os.urandom(24), os.urandom(number % 900)
        return cipher.open(nonce, cipher.seal(nonce, plain, b""), b"") == plain

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(both_ways, range(4000)))
