"""Tokens of other issuers: taken only as the operator said, and keys only from where the operator said."""

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from perdure.core.access.book import EMPTY
from perdure.core.access.changes import PrincipalAdded
from perdure.core.access.directory import decide_add_principal
from perdure.core.access.roles import Role
from perdure.core.errors import Invalid, Unauthenticated
from perdure.services import outside as module
from perdure.services.outside import Issuer, Outside, fetched, keys_in
from perdure.services.signed import spelled
from perdure.testing import FixedAmbient
from perdure.waiting import drive

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
AMBIENT = FixedAmbient()
NOW = AMBIENT.now() // 1_000_000
ISSUER = "https://id.example"


def jwk(algorithm: Any, key: Any, kid: str, **more: Any) -> dict[str, Any]:
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, **more}


KEYS = [jwk(RSAAlgorithm, RSA, "r"), jwk(ECAlgorithm, EC, "e"), jwk(OKPAlgorithm, ED, "d")]
CLAIMS = {"iss": ISSUER, "aud": "perdure", "sub": "42", "exp": NOW + 600, "iat": NOW, "roles": ["staff", "unknown"]}


class Place:
    """Where keys are kept, and how often they were asked for."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys or KEYS)
        self.asked: list[str] = []
        self.broken = False

    def __call__(self, place: str, timeout: float) -> bytes:
        self.asked.append(place)
        if self.broken:
            raise OSError("unreachable")
        return json.dumps({"keys": self.keys}).encode()


def issuer(**more: Any) -> Issuer:
    known = {"issuer": ISSUER, "audience": "perdure", "keys": "https://id.example/keys", "roles": {"staff": Role.OWNER}}
    return Issuer(**{"tenant": "acme", **known, **more})


def signed(key: Any = RSA, alg: str = "RS256", kid: str | None = "r", head: Any = (), **claims: Any) -> str:
    merged = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    headers = {**({} if kid is None else {"kid": kid}), **dict(head)}
    return jwt.encode(merged, key, algorithm=alg, headers=headers)


def outside(place: Place | None = None, ambient: FixedAmbient = AMBIENT, **more: Any) -> Outside:
    return Outside((issuer(**more),), ambient, place or Place())


def identified(token: Any, **more: Any) -> Any:
    return drive(outside(**more).identify(token))


def is_refused(token: Any, **more: Any) -> bool:
    with pytest.raises(Unauthenticated):
        identified(token, **more)
    return True


@pytest.mark.parametrize(("key", "alg", "kid"), [(RSA, "RS256", "r"), (EC, "ES256", "e"), (ED, "EdDSA", "d")])
def test_a_token_of_an_issuer_is_an_actor(key: Any, alg: str, kid: str) -> None:
    actor = identified(signed(key, alg, kid))
    assert (actor.tenant, actor.name, actor.roles, actor.session) == ("acme", f"{ISSUER}#42", {Role.OWNER}, None)
    assert actor.principal.startswith("prn_")
    assert identified(signed(key, alg, kid, jti="another")).principal == actor.principal
    assert identified(signed(key, alg, kid, sub="43")).principal != actor.principal


def test_algorithms_must_be_allowed_and_fit_the_key() -> None:
    assert is_refused(signed(EC, "ES256", "e"), algorithms=("RS256",))
    for alg in ("RS384", "PS256"):
        assert is_refused(signed(RSA, alg))
    assert is_refused(signed(EC, "ES256", "r"))
    assert is_refused(jwt.encode(CLAIMS, None, algorithm="none", headers={"kid": "r"}))
    assert is_refused(jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": "r"}) + "AAAA")


def test_a_public_key_is_no_shared_secret() -> None:
    public = RSA.public_key()
    spellings = [
        public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER)
    ]
    for key in (*spellings, json.dumps(KEYS[0]).encode(), b""):
        for alg in ("HS256", "RS256"):
            head = spelled(json.dumps({"alg": alg, "kid": "r", "typ": "JWT"}).encode())
            signing = f"{head}.{spelled(json.dumps(CLAIMS).encode())}"
            token = f"{signing}.{spelled(hmac.digest(key, signing.encode(), hashlib.sha256))}"
            assert is_refused(token)
    with pytest.raises(Invalid):
        issuer(algorithms=("HS256",))
    with pytest.raises(Invalid):
        issuer(algorithms=())


@pytest.mark.parametrize(
    "head",
    [
        {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example"}, {"x5c": ["AA"]}, {"crit": ["exp"]},
        {"jwk": jwk(RSAAlgorithm, OTHER, "r")}, {"typ": "perdure-session+jwt"}, {"typ": "dpop+jwt"}, {"zip": "DEF"},
        {"kid": "../keys"}, {"kid": "r' OR 1=1"}, {"kid": "e"}, {"kid": ""}, {"kid": "x" * 300},
    ],
)  # fmt: skip
def test_a_header_that_names_keys_or_means_something_else_is_refused(head: dict[str, Any]) -> None:
    place = Place()
    for key in (RSA, OTHER):
        with pytest.raises(Unauthenticated):
            drive(outside(place).identify(signed(key, head=head)))
    assert set(place.asked) <= {"https://id.example/keys"}, "only the operator's place is ever asked"


def test_a_token_signed_by_anybody_else_is_refused() -> None:
    assert is_refused(signed(OTHER))


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://other.example"}, {"iss": None}, {"aud": "other"}, {"aud": ["other"]}, {"aud": None},
        {"sub": None}, {"sub": ""}, {"sub": "x" * 600}, {"exp": None}, {"exp": NOW - 30}, {"exp": "soon"},
        {"nbf": NOW + 31}, {"iat": NOW + 31},
    ],
)  # fmt: skip
def test_claims_must_be_there_for_us_and_now(change: dict[str, Any]) -> None:
    # PyJWT refuses to write some of these, so they are written by hand.
    merged = {name: value for name, value in (CLAIMS | change).items() if value is not None}
    token = jwt.api_jws.encode(json.dumps(merged).encode(), RSA, algorithm="RS256", headers={"kid": "r"})
    assert is_refused(token)


def test_clocks_may_differ_by_the_leeway_and_no_more() -> None:
    assert identified(signed(exp=NOW - 29))
    assert identified(signed(nbf=NOW + 30, iat=NOW + 30))
    assert is_refused(signed(exp=NOW - 1), leeway=0)
    assert identified(signed(aud=["x", "perdure"]))


def test_the_tenant_is_the_operator_s_or_one_that_the_operator_listed() -> None:
    claimed = {"tenant": "", "tenant_claim": "org", "tenants": ("acme", "beta")}
    assert identified(signed(org="beta"), **claimed).tenant == "beta"
    for org in ("gamma", "_perdure", "", 1, ["acme"], None):
        assert is_refused(signed(org=org), **claimed)
    for wrong in ({"tenant": "_perdure"}, {"tenant": ""}, {"tenant_claim": "org"}, {**claimed, "tenants": ()},
                  {**claimed, "tenants": ("_perdure",)}):  # fmt: skip
        with pytest.raises(Invalid):
            issuer(**wrong)


def test_names_and_roles_are_as_mapped() -> None:
    mapped = {"roles_claim": "realm.roles", "roles": {"boss": Role.ADMIN}, "always": (Role.VIEWER,), "prefix": "corp:"}
    actor = identified(signed(realm={"roles": ["boss", "admin", 3]}), **mapped)
    assert (actor.name, actor.roles) == ("corp:42", {Role.ADMIN, Role.VIEWER})
    assert identified(signed(**{"a.b": "staff x"}), roles_claim="a.b").roles == {Role.OWNER}
    for odd in ({}, 1, "owner", ["owner"], {"staff": 1}):
        assert identified(signed(roles=odd)).roles == frozenset(), "our own words mean nothing unless mapped"
    assert is_refused(signed(), name_claim="login")
    assert is_refused(signed(email="a@b.c"), name_claim="email")
    assert identified(signed(email="a@b.c", email_verified=True), name_claim="email").name == f"{ISSUER}#a@b.c"


def test_nobody_from_outside_has_a_name_of_the_directory_unless_the_operator_says_so() -> None:
    asked = PrincipalAdded(id="prn_1", tenant="acme", name=f"{ISSUER}#42")
    with pytest.raises(Invalid, match="issuer"):
        decide_add_principal(EMPTY, asked, None)
    assert identified(signed(sub="ana"), prefix="").name == "ana", "the issuer is trusted with it"
    for wrong in ("\n", "x" * 256, "é\u202e: "):
        with pytest.raises(Invalid):
            issuer(prefix=wrong)


@pytest.mark.parametrize(
    "name", ["a\nb", "a\u202eb", " a", "a ", "", "\x00", "\u2028", "x" * 257, "x" * 250, "\ud800", 7, None, ["a"]]
)
def test_a_name_that_the_directory_would_not_take_is_nobody_s(name: Any) -> None:
    claimed = json.dumps(CLAIMS | {"login": name}).encode()
    assert is_refused(jwt.api_jws.encode(claimed, RSA, algorithm="RS256", headers={"kid": "r"}), name_claim="login")


def test_names_of_two_issuers_are_never_the_same() -> None:
    other = issuer(issuer="https://b.example", prefix="")
    both = Outside((issuer(), other), AMBIENT, Place())
    with pytest.raises(Unauthenticated):
        drive(both.identify(signed(iss="https://b.example", sub=f"{ISSUER}#42")))
    assert drive(both.identify(signed(iss="https://b.example", sub="42"))).name == "42"
    with pytest.raises(Invalid, match="prefixes"):
        Outside((issuer(prefix="corp:"), issuer(issuer="https://b.example", prefix="corp:eu:")), AMBIENT, Place())


def test_keys_that_are_not_for_this_are_passed_over() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    odd = [
        {"kty": "oct", "k": "AAAA", "kid": "o"}, jwk(RSAAlgorithm, small, "s"), {"kty": "RSA", "kid": "broken"},
        jwk(RSAAlgorithm, RSA, "u", use="enc"), jwk(RSAAlgorithm, RSA, "a", alg="RS512"), {"kty": ["RSA"]}, {},
        {**jwk(ECAlgorithm, ec.generate_private_key(ec.SECP384R1()), "c")},
        {**json.loads(RSAAlgorithm.to_jwk(RSA)), "kid": "p", "key_ops": ["verify"]},
    ]  # fmt: skip
    found = keys_in(json.dumps({"keys": [*odd, *KEYS]}).encode(), ("RS256", "ES256", "EdDSA"))
    assert set(found) == {("r", "RS256"), ("e", "ES256"), ("d", "EdDSA")}


def test_a_token_without_a_key_id_is_taken_when_one_key_can_be_meant() -> None:
    assert identified(signed(kid=None))
    assert is_refused(signed(kid=None), place=Place(*KEYS, jwk(RSAAlgorithm, OTHER, "r2")))


def test_keys_are_fetched_once_and_again_for_an_unknown_key_once_a_minute() -> None:
    ambient, place = FixedAmbient(), Place()
    known = outside(place, ambient)
    for _ in range(5):
        drive(known.identify(signed()))
    assert len(place.asked) == 1
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            drive(known.identify(signed(OTHER, kid="new")))
    assert len(place.asked) == 1, "less than a minute ago"
    ambient.advance(60)
    place.keys.append(jwk(RSAAlgorithm, OTHER, "new"))
    assert drive(known.identify(signed(OTHER, kid="new")))
    assert len(place.asked) == 2


def test_keys_that_were_taken_away_are_gone_after_an_hour_and_unreachable_ones_after_a_day() -> None:
    ambient, place = FixedAmbient(), Place()
    known = outside(place, ambient)
    drive(known.identify(signed(exp=NOW + 10**6)))
    place.broken = True
    ambient.advance(module.FRESH)
    assert drive(known.identify(signed(exp=NOW + 10**6))), "the issuer is down, not gone"
    ambient.advance(module.STALE)
    with pytest.raises(Unauthenticated):
        drive(known.identify(signed(exp=NOW + 10**6)))
    place.broken, place.keys = False, KEYS[1:]
    ambient.advance(module.PAUSE)
    with pytest.raises(Unauthenticated):
        drive(known.identify(signed(exp=NOW + 10**6)))


async def test_those_who_come_together_share_one_fetch() -> None:
    place = Place()
    known = outside(place, FixedAmbient())
    found = await asyncio.gather(*(known.identify(signed()) for _ in range(20)))
    assert len({actor.principal for actor in found}) == 1
    assert len(place.asked) == 1


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"null", b'{"keys": 1}', b'{"keys": [1]}', b"\xff", b"[" * 10_000])
def test_a_broken_key_set_lets_nobody_in(raw: bytes) -> None:
    with pytest.raises(Unauthenticated):
        drive(Outside((issuer(),), FixedAmbient(), lambda *_: raw).identify(signed()))


def test_an_issuer_is_told_from_others_without_believing_anything() -> None:
    known = outside()
    assert known.issued(signed(OTHER))
    for token in (signed(iss="https://x"), signed(iss=None), "", None, "a.b.c", "a" * 10**6, "e30.e30.e30"):
        assert not known.issued(token)


@settings(max_examples=100, deadline=None)
@given(shown=st.one_of(st.text(), st.binary().map(spelled), st.none(), st.binary()))
def test_whatever_is_shown_is_refused(shown: Any) -> None:
    assert is_refused(shown)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_token_with_anything_changed_is_refused(data: st.DataObject) -> None:
    token = signed(ED, "EdDSA", "d")
    at = data.draw(st.integers(0, len(token) - 1))
    changed = token[:at] + data.draw(st.text(max_size=2)) + token[at + data.draw(st.integers(0, 2)) :]
    assert changed == token or is_refused(changed)


# ── fetching ──────────────────────────────────────────────────────────────────────────────────────


class Answers(BaseHTTPRequestHandler):
    """Serves a key set, a redirection to it, too much of it, and nonsense."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        if self.path == "/nonsense":
            self.wfile.write(b"what?\r\n")
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b" " * (module.LARGEST + 1) if self.path == "/large" else json.dumps({"keys": KEYS}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_keys_come_from_an_address_or_a_file_and_are_not_chased(address: str, tmp_path: Path) -> None:
    assert json.loads(fetched(f"{address}/keys", 5))["keys"] == KEYS
    for wrong in ("moved", "large", "nonsense"):
        with pytest.raises((OSError, ValueError)):
            fetched(f"{address}/{wrong}", 5)
    file = tmp_path / "keys.json"
    file.write_bytes(json.dumps({"keys": KEYS}).encode())
    for place in (str(file), f"file://{file}", f"{address}/keys"):
        assert drive(Outside((issuer(keys=place),), FixedAmbient()).identify(signed()))
    for place in (str(tmp_path / "missing"), f"{address}/moved", f"{address}/nonsense"):
        with pytest.raises(Unauthenticated):
            drive(Outside((issuer(keys=place),), FixedAmbient()).identify(signed()))


def test_keys_are_not_fetched_in_the_clear_over_a_network() -> None:
    with pytest.raises(Invalid):
        issuer(keys="http://id.example/keys")
    assert issuer(keys="http://127.0.0.1/keys")
    with pytest.raises(Invalid):
        Outside((issuer(), issuer()), AMBIENT)
