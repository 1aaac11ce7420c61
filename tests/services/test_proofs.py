"""Proofs of client keys: for one request, one token, now, once; a stolen token without one opens nothing."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from perdure.core.access.claims import Request
from perdure.core.errors import RateLimited, TokenRevoked, Unauthenticated
from perdure.services import proofs as module
from perdure.services.proofs import NONCE, WINDOW, Proofs, hash_of
from perdure.testing import FixedAmbient
from tests.services.nodes import ADA, HOME, Node, Secrets

EC, ED = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
URL = "https://perdure.example/v1/sessions/s"


def public(key: Any) -> dict[str, Any]:
    kinds = ((ec.EllipticCurvePrivateKey, ECAlgorithm), (ed25519.Ed25519PrivateKey, OKPAlgorithm))
    algorithm: Any = next((algorithm for kind, algorithm in kinds if isinstance(key, kind)), RSAAlgorithm)
    found = json.loads(algorithm.to_jwk(key.public_key()))
    return {name: value for name, value in found.items() if name in ("kty", "crv", "x", "y", "n", "e")}


class Client:
    """Makes proofs as a client would, or as one would not."""

    def __init__(self, key: Any = EC, alg: str = "ES256") -> None:
        self.ambient = FixedAmbient()
        self.proofs = Proofs(self.ambient)
        self.key, self.alg = key, alg
        self.made = 0

    def proof(self, token: str | None = None, head: Any = (), **claims: Any) -> str:
        self.made += 1
        now = self.ambient.now() // 1_000_000
        told = {"jti": f"proof-{self.made:08}", "htm": "POST", "htu": URL, "iat": now, "nonce": self.proofs.nonce()}
        if token is not None:
            told["ath"] = hash_of(token)
        told = {name: value for name, value in (told | claims).items() if value is not None}
        headers = {"typ": "dpop+jwt", "jwk": public(self.key), **dict(head)}
        return jwt.api_jws.encode(json.dumps(told).encode(), self.key, algorithm=self.alg, headers=headers)

    def verified(self, proof: Any, token: str | None = None, method: str = "POST", url: str = URL) -> str:
        return self.proofs.verify(proof, method=method, url=url, token=token)

    def refused(self, proof: Any, token: str | None = None, **how: Any) -> Unauthenticated:
        with pytest.raises(Unauthenticated) as caught:
            self.verified(proof, token, **how)
        return caught.value


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.mark.parametrize(("key", "alg"), [(EC, "ES256"), (ED, "EdDSA")])
def test_a_proof_names_its_key(key: Any, alg: str) -> None:
    client = Client(key, alg)
    name = client.verified(client.proof())
    assert name == client.verified(client.proof("token"), "token")
    assert len(name) == 43


def test_the_name_of_a_key_is_the_one_of_the_standard() -> None:
    """The example key of RFC 8037, appendix A.3."""
    key = module.Edwards(crv="Ed25519", x="11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    assert module.thumbprint(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_a_proof_counts_once(client: Client) -> None:
    proof = client.proof()
    client.verified(proof)
    for _ in range(3):
        assert client.refused(proof).fields["error"] == "invalid_dpop_proof"
        client.ambient.advance(WINDOW / 3)
    client.ambient.advance(1)
    client.refused(proof)
    assert client.refused(client.proof(jti="short"))


def test_a_proof_from_the_future_is_remembered_until_its_time_is_over(client: Client) -> None:
    proof = client.proof(iat=client.ambient.now() // 1_000_000 + WINDOW)
    client.verified(proof)
    client.ambient.advance(2 * WINDOW)
    client.refused(proof)


def test_a_proof_is_for_one_method_and_address(client: Client) -> None:
    client.refused(client.proof(), method="GET")
    client.refused(client.proof(), method="post")
    for other in ("https://perdure.example/v1/sessions/t", "https://other.example/v1/sessions/s",
                  "http://perdure.example/v1/sessions/s", "https://perdure.example:444/v1/sessions/s"):  # fmt: skip
        client.refused(client.proof(), url=other)
    for same in (f"{URL}?a=b", "https://PERDURE.example:443/v1/sessions/s", f"{URL}#x"):
        client.verified(client.proof(), url=same)
    for odd in ("", "https://[", "https://x@perdure.example/v1/sessions/s", "https://perdure.example:x/v1/sessions/s"):
        client.refused(client.proof(htu=odd))


def test_a_proof_is_for_now(client: Client) -> None:
    now = client.ambient.now() // 1_000_000
    for iat in (now - WINDOW, now + WINDOW):
        client.verified(client.proof(iat=iat))
    for iat in (now - WINDOW - 1, now + WINDOW + 1, 0, -1, 10**30, "now", None, 1.5):
        client.refused(client.proof(iat=iat))


def test_a_proof_is_for_one_token(client: Client) -> None:
    client.refused(client.proof("one"), "two")
    client.refused(client.proof(), "one")
    client.refused(client.proof("one"))


def test_a_proof_carries_a_nonce_of_this_node_that_is_not_old(client: Client) -> None:
    for nonce in (None, "", "x", Proofs(FixedAmbient(seed=b"other")).nonce(), "é", "\ud800"):
        told = client.refused(client.proof(nonce=nonce))
        assert told.fields["nonce"] == client.proofs.nonce()
        assert told.fields["error"] in ("use_dpop_nonce", "invalid_dpop_proof")
    old = client.proofs.nonce()
    client.ambient.advance(NONCE)
    assert client.proofs.nonce() != old
    client.verified(client.proof(nonce=old))
    client.ambient.advance(NONCE)
    assert client.refused(client.proof(nonce=old)).fields["error"] == "use_dpop_nonce"


def test_only_public_keys_for_the_two_algorithms_are_taken(client: Client) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    tricks: list[dict[str, Any]] = [
        {"jwk": public(other)}, {"jwk": public(EC) | {"d": "A" * 43}}, {"jwk": None}, {"jwk": {}}, {"jwk": public(ED)},
        {"jwk": {"kty": "oct", "k": "AAAA"}}, {"jwk": public(EC) | {"x": "A" * 43}}, {"jwk": public(EC) | {"x": 1}},
        {"jwk": public(EC) | {"crv": "P-384"}}, {"typ": "JWT"}, {"typ": "perdure-session+jwt"}, {"kid": "k"},
        {"crit": ["exp"]}, {"jku": "https://evil.example"}, {"x5c": []},
    ]  # fmt: skip
    for head in tricks:
        client.refused(client.proof(head=head))
    assert client.verified(client.proof())
    large = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    client.refused(Client(large, "RS256").proof())
    client.refused(Client(ec.generate_private_key(ec.SECP384R1()), "ES384").proof())
    client.refused(jwt.api_jws.encode(b"{}", None, algorithm="none", headers={"typ": "dpop+jwt", "jwk": public(EC)}))
    secret = public(EC)["x"].encode()
    client.refused(jwt.api_jws.encode(b"{}", secret, algorithm="HS256", headers={"typ": "dpop+jwt", "jwk": public(EC)}))


@settings(max_examples=100, deadline=None)
@given(shown=st.one_of(st.text(), st.binary(), st.none(), st.integers()))
def test_whatever_is_shown_is_refused(shown: Any) -> None:
    Client().refused(shown)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_proof_with_anything_changed_is_refused(data: st.DataObject) -> None:
    client = Client(ED, "EdDSA")
    proof = client.proof()
    at = data.draw(st.integers(0, len(proof) - 1))
    changed = proof[:at] + data.draw(st.text(max_size=2)) + proof[at + data.draw(st.integers(0, 2)) :]
    if changed != proof:
        client.refused(changed)


def test_what_is_remembered_is_bounded_and_forgets_nothing_early(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SEEN", 5)
    first = client.proof()
    client.verified(first)
    for _ in range(4):
        client.verified(client.proof())
    with pytest.raises(RateLimited):
        client.verified(client.proof())
    client.refused(first)
    client.ambient.advance(2 * WINDOW + 1)
    client.verified(client.proof())


# ── with session tokens ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def node(tmp_path: Path, client: Client) -> AsyncIterator[Node]:
    made = Node(tmp_path, Secrets(), proofs=client.proofs)
    yield made
    await made.store.close()


def asked(proof: str | None) -> Request:
    return msgspec.structs.replace(HOME, method="POST", url=URL, proof=proof)


async def test_a_bound_token_opens_its_session_only_with_a_proof(node: Node, client: Client) -> None:
    key = client.verified(client.proof())
    pair = await node.tokens.issue(ADA, await node.session(), cnf=key)
    assert (await node.tokens.validate(pair.access, asked(client.proof(pair.access)))).actor.name == "ada"
    thief = Client()
    thief.key, thief.proofs = ec.generate_private_key(ec.SECP256R1()), client.proofs
    used = client.proof(pair.access)
    await node.tokens.validate(pair.access, asked(used))
    for proof in (None, "", "x", used, client.proof(), client.proof("other"), thief.proof(pair.access)):
        with pytest.raises(Unauthenticated):
            await node.tokens.validate(pair.access, asked(proof))
    assert {word for word, _ in node.audited} == {"proof_missing"}
    assert len(node.audited) == 7


async def test_a_bound_refresh_token_needs_a_proof_of_the_same_key(node: Node, client: Client) -> None:
    key = client.verified(client.proof())
    pair = await node.tokens.issue(ADA, await node.session(), cnf=key)
    with pytest.raises(Unauthenticated):
        await node.tokens.refresh(pair.refresh, asked(None))
    second = await node.tokens.refresh(pair.refresh, asked(client.proof()))
    again = await node.tokens.refresh(pair.refresh, asked(client.proof()))
    assert (again.access, again.refresh) == (second.access, second.refresh)
    assert second.claims.cnf is not None
    assert second.claims.cnf.jkt == key
    thief = Client()
    thief.key, thief.proofs = ec.generate_private_key(ec.SECP256R1()), client.proofs
    with pytest.raises(Unauthenticated) as caught:
        await node.tokens.refresh(pair.refresh, asked(thief.proof()))
    assert not isinstance(caught.value, TokenRevoked), "nobody ends a family without its key"
    await node.tokens.validate(second.access, asked(client.proof(second.access)))
