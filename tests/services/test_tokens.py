"""Session tokens, over one file and on several nodes: what they open, and everything they must not."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.access.claims import LONGEST, SECOND, SKEW, Claims, Request
from perdure.core.access.families import GRACE, RETRY
from perdure.core.access.roles import Role
from perdure.core.errors import (
    Denied,
    Invalid,
    NotFound,
    RateLimited,
    Terminal,
    TokenExpired,
    TokenRevoked,
    TooLarge,
    Unauthenticated,
)
from perdure.core.session.ids import SessionId, named
from perdure.services import notes
from perdure.services.tokens import Settings
from perdure.waiting import drive
from tests.services.nodes import ADA, AWAY, HOME, Node, Secrets


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


@pytest.fixture
async def node(tmp_path: Path, secrets: Secrets) -> AsyncIterator[Node]:
    made = Node(tmp_path, secrets)
    yield made
    await made.store.close()


@pytest.fixture
async def other(node: Node, tmp_path: Path, secrets: Secrets) -> AsyncIterator[Node]:
    made = Node(tmp_path, secrets, "two")
    yield made
    await made.store.close()


def spelled(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parts(token: str) -> list[Any]:
    return [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]


def forged(header: dict[str, Any], claims: dict[str, Any], key: bytes) -> str:
    """A token with any header and claims, signed with a key as HS256 would be."""
    signing = ".".join(
        spelled(json.dumps(part, separators=(",", ":"), sort_keys=True).encode()) for part in (header, claims)
    )
    return f"{signing}.{spelled(hmac.digest(key, signing.encode(), hashlib.sha256))}"


async def refused(node: Node, token: Any, request: Request = HOME) -> type[Unauthenticated]:
    """How both doors refuse a token."""
    with pytest.raises(Unauthenticated) as caught:
        await node.tokens.validate(token, request)
    return type(caught.value)


# ── what a token opens ────────────────────────────────────────────────────────────────────────────


async def test_a_token_opens_its_session_for_whom_it_was_given(node: Node) -> None:
    session = await node.session()
    pair = await node.tokens.issue(ADA, session)
    found = await node.tokens.validate(pair.access, HOME)
    assert found.actor == msgspec.structs.replace(ADA, session=session, credential=pair.claims.jti)
    assert (found.claims, found.verdict.ok, found.verdict.rotate) == (pair.claims, True, False)
    assert pair.claims.exp - pair.claims.iat == 300
    assert node.audited == []


async def test_no_two_tokens_share_a_handle(node: Node) -> None:
    session = await node.session()
    pairs = [await node.tokens.issue(ADA, session) for _ in range(5)]
    handles = [claims["jti"] for pair in pairs for claims in (parts(pair.access)[1], parts(pair.refresh)[1])]
    assert len(set(handles)) == len(handles)
    assert {len(base64.urlsafe_b64decode(handle + "=")) for handle in handles} == {32}


async def test_nothing_secret_and_nobody_s_name_is_written(node: Node, tmp_path: Path) -> None:
    session = await node.session("the-owner")
    actor = msgspec.structs.replace(ADA, name="the-holder")
    pair = await node.tokens.issue(actor, session, address="198.51.100.7")
    second = await node.tokens.refresh(pair.refresh, Request(address="198.51.100.7"))
    head = await node.system.log.head(named("_perdure", f"tokens:{session}"))
    told = repr([event.data for event in await node.system.log.events(head)])
    for secret in (parts(pair.refresh)[1]["jti"], parts(second.refresh)[1]["jti"], "the-holder", "198.51.100.7"):
        assert secret not in told
    assert "prn_ada" in told
    assert pair.access not in repr(pair)
    assert pair.refresh not in repr(pair)


async def test_a_token_lives_as_long_as_asked_but_never_past_the_longest(node: Node) -> None:
    session = await node.session()
    assert (await node.tokens.issue(ADA, session, ttl=LONGEST)).claims.ttl == LONGEST
    for ttl in (0, -1, LONGEST + 1):
        with pytest.raises(Invalid):
            await node.tokens.issue(ADA, session, ttl=ttl)
    with pytest.raises(Invalid):
        Settings(lifetime=LONGEST + 1)
    with pytest.raises(Invalid):
        await node.tokens.issue(ADA, session, cnf="no thumbprint")


async def test_no_token_is_given_for_a_token_or_for_a_session_that_is_not_or_is_over(node: Node) -> None:
    session = await node.session()
    pair = await node.tokens.issue(ADA, session)
    holder = (await node.tokens.validate(pair.access, HOME)).actor
    with pytest.raises(Denied):
        await node.tokens.issue(holder, session)
    with pytest.raises(NotFound):
        await node.tokens.issue(ADA, named("acme", "nowhere"))
    await node.end(session)
    with pytest.raises(Terminal):
        await node.tokens.issue(ADA, session)
    many = msgspec.structs.replace(ADA, scopes=tuple(f"read:{n:0100}" for n in range(100)))
    with pytest.raises(TooLarge):
        await node.tokens.issue(many, await node.session())


# ── what it does not open ─────────────────────────────────────────────────────────────────────────


async def test_a_token_is_over_exactly_at_its_edge(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    node.ambient.advance(300 - 1e-6)
    await node.tokens.validate(pair.access, HOME)
    node.ambient.advance(1e-6)
    assert await refused(node, pair.access) is TokenExpired
    assert node.audited == [("expired_token", "prn_ada")]


async def test_a_node_that_lags_a_little_takes_the_token_and_one_that_lags_more_does_not(
    node: Node, other: Node
) -> None:
    session = await node.session()
    node.ambient.advance(SKEW)
    ahead = await node.tokens.issue(ADA, session)
    await other.tokens.validate(ahead.access, HOME)
    node.ambient.advance(1)
    further = await node.tokens.issue(ADA, session)
    assert await refused(other, further.access) is Unauthenticated
    assert other.audited == [("early_token", "prn_ada")]


async def test_a_node_that_runs_ahead_ends_a_token_early_and_never_late(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    other.ambient.advance(300)
    assert await refused(other, pair.access) is TokenExpired


async def test_a_token_does_not_outlive_its_session_or_a_change_of_owner(node: Node) -> None:
    session = await node.session()
    pair = await node.tokens.issue(ADA, session)
    await node.end(session)
    assert await refused(node, pair.access) is Unauthenticated
    with pytest.raises(Unauthenticated):
        await node.tokens.refresh(pair.refresh, HOME)
    assert node.audited == [("invalid_session", "prn_ada")] * 2


async def test_a_token_opens_no_other_session_and_nobody_else_s(node: Node) -> None:
    one, two = await node.session(), await node.session("bob")
    pair = await node.tokens.issue(ADA, one)
    await node.tokens.validate(pair.access, Request(target=one))
    with pytest.raises(Denied, match=f"this token opens session {one} and nothing else"):
        await node.tokens.validate(pair.access, Request(target=two))

    async def given_away(tenant: str, session: str) -> Any:
        return await node.standing(tenant, two)

    node.tokens._standings = given_away
    assert await refused(node, pair.access) is Unauthenticated
    assert [word for word, _ in node.audited] == ["other_session", "user_session_mismatch"]


async def test_what_a_principal_loses_its_tokens_lose_at_the_next_request(node: Node) -> None:
    both = msgspec.structs.replace(ADA, roles=frozenset({Role.OWNER, Role.ADMIN}))
    node.holders[ADA.principal] = both
    pair = await node.tokens.issue(both, await node.session())
    assert (await node.tokens.validate(pair.access, HOME)).actor.roles == {Role.OWNER, Role.ADMIN}
    node.holders[ADA.principal] = ADA
    assert (await node.tokens.validate(pair.access, HOME)).actor.roles == {Role.OWNER}
    del node.holders[ADA.principal]
    assert await refused(node, pair.access) is TokenRevoked


async def test_a_token_counts_no_longer_than_what_it_was_issued_under(node: Node) -> None:
    other = msgspec.structs.replace(ADA, credential="key_2")
    node.credentials.add(other.credential)
    session = await node.session()
    one, two = await node.tokens.issue(ADA, session), await node.tokens.issue(other, session)
    two = await node.tokens.refresh(two.refresh, HOME)
    node.credentials.remove(other.credential)
    assert await refused(node, two.access) is TokenRevoked
    with pytest.raises(TokenRevoked):
        await node.tokens.refresh(two.refresh, HOME)
    assert node.audited == [("revoked_token", "prn_ada")] * 2
    await node.tokens.validate(one.access, HOME)
    await node.tokens.refresh(one.refresh, HOME)


async def test_a_stolen_token_is_no_use_at_another_address_when_bound(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session(), address=HOME.address)
    await node.tokens.validate(pair.access, HOME)
    assert await refused(node, pair.access, AWAY) is Unauthenticated
    with pytest.raises(Unauthenticated):
        await node.tokens.refresh(pair.refresh, AWAY)
    assert node.audited == [("ip_mismatch", "prn_ada")] * 2


async def test_where_addresses_are_bound_an_unbound_token_is_refused(tmp_path: Path, node: Node) -> None:
    strict = node.made(Settings(bound_addresses=True))
    pair = await strict.issue(ADA, await node.session())
    with pytest.raises(Unauthenticated):
        await strict.validate(pair.access, HOME)


async def test_a_token_bound_to_a_key_is_nothing_without_its_proof(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session(), cnf="K" * 43)
    assert await refused(node, pair.access) is Unauthenticated
    with pytest.raises(Unauthenticated):
        await node.tokens.refresh(pair.refresh, HOME)
    assert node.audited == [("proof_missing", "prn_ada")] * 2


# ── forgery ───────────────────────────────────────────────────────────────────────────────────────


async def test_no_other_algorithm_is_taken(node: Node, secrets: Secrets) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    header, claims = parts(pair.access)
    key = secrets.of("access")[0][1]
    assert (await node.tokens.validate(forged(header, claims, key), HOME)).actor.name == "ada", (
        "the forgery is a good one"
    )
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for alg in ("none", "None", "NONE", "", "HS384", "HS512", "RS256", "ES256", "EdDSA", "hs256", None, 1, ["HS256"]):
        assert await refused(node, forged(header | {"alg": alg}, claims, key)) is Unauthenticated
        assert await refused(node, forged(header | {"alg": alg}, claims, public)) is Unauthenticated
    bare = forged(header | {"alg": "none"}, claims, key).rpartition(".")[0]
    for token in (f"{bare}.", bare, f"{bare}.{'A' * 43}"):
        assert await refused(node, token) is Unauthenticated


async def test_no_other_header_is_taken_even_when_rightly_signed(node: Node, secrets: Secrets) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    header, claims = parts(pair.access)
    key = secrets.of("access")[0][1]
    tricks: list[dict[str, Any]] = [
        {"typ": "JWT"}, {"typ": "perdure-refresh+jwt"}, {"typ": "PERDURE-SESSION+JWT"}, {"typ": None}, {"typ": ""},
        {"jku": "https://evil.example/keys"}, {"jwk": {"kty": "oct", "k": "AA"}}, {"x5u": "https://evil.example"},
        {"x5c": []}, {"crit": []}, {"crit": ["b64"], "b64": False}, {"zip": "DEF"}, {"cty": "JWT"}, {"nonce": ""},
        {"kid": ""}, {"kid": None}, {"kid": "../../etc/passwd"}, {"kid": "access-1' OR 1=1 --"}, {"kid": "access-2"},
        {"kid": "refresh-1"}, {"kid": "access-1\x00"}, {"kid": ["access-1"]}, {"kid": {"a": 1}}, {"kid": "x" * 65},
    ]  # fmt: skip
    for trick in tricks:
        assert await refused(node, forged(header | trick, claims, key)) is Unauthenticated, trick
    spaced = spelled(json.dumps(header, sort_keys=True).encode()) + pair.access[pair.access.index(".") :]
    assert await refused(node, spaced) is Unauthenticated
    for missing in header:
        short = {name: value for name, value in header.items() if name != missing}
        assert await refused(node, forged(short, claims, key)) is Unauthenticated
    assert {word for word, _ in node.audited} == {"invalid_token_signature"}


async def test_a_key_of_one_kind_signs_no_other_kind(node: Node, secrets: Secrets) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    assert await refused(node, pair.refresh) is Unauthenticated
    with pytest.raises(Unauthenticated):
        await node.tokens.refresh(pair.access, HOME)
    access, claims = parts(pair.access)
    renewing, renewal = parts(pair.refresh)
    for header in (access, access | {"kid": "refresh-1"}, renewing):
        assert await refused(node, forged(header, claims, secrets.of("refresh")[0][1])) is Unauthenticated
    assert await refused(node, forged(access, renewal, secrets.of("access")[0][1])) is Unauthenticated


async def test_claims_that_are_missing_wrong_or_too_many_do_not_count_even_when_signed(
    node: Node, secrets: Secrets
) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    header, claims = parts(pair.access)
    key = secrets.of("access")[0][1]
    needed = {
        "iss",
        "aud",
        "typ",
        "jti",
        "iat",
        "nbf",
        "exp",
        "family",
        "generation",
        "tenant",
        "session",
        "sub",
        "name",
    }
    assert needed <= set(claims)
    for name in needed:
        short = {known: value for known, value in claims.items() if known != name}
        assert await refused(node, forged(header, short, key)) is Unauthenticated, name
    wrong: list[dict[str, Any]] = [
        {"iss": "x"}, {"aud": "x"}, {"aud": ["perdure"]}, {"typ": "refresh"}, {"jti": "short"}, {"jti": 1},
        {"exp": str(claims["exp"])}, {"exp": 1e300}, {"exp": -1}, {"exp": claims["iat"] + LONGEST + 1}, {"iat": None},
        {"generation": True}, {"roles": ["king"]}, {"roles": "owner"}, {"scopes": [1]}, {"cnf": {"jkt": "x"}},
        {"more": 1}, {"name": "x" * 513}, {"exp": 10**40},
    ]  # fmt: skip
    for change in wrong:
        assert await refused(node, forged(header, claims | change, key)) is Unauthenticated, change


MALFORMED: list[Any] = [
    "", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d", "a" * 10_000_000, "." * 100_000, "é.é.é", "\ud800.a.b", "a.b.\n",
    " ", "\x00", None, 1, b"a.b.c", [], {}, "e30.e30." + "A" * 43, "W10.W10." + "A" * 43,
    spelled(b'{"alg":"HS256"' + b"[" * 5000) + ".e30." + "A" * 43,
    spelled(b"[" * 6000) + ".e30." + "A" * 43, spelled(b"\xff\xfe") + ".e30." + "A" * 43,
    spelled(b'{"alg":"HS256","kid":"access-1","typ":"perdure-session+jwt","x":' + b"[" * 5000) + ".e30." + "A" * 43,
]  # fmt: skip


@pytest.mark.parametrize("token", MALFORMED, ids=range(len(MALFORMED)))
async def test_what_is_no_token_is_refused_and_nothing_else_happens(node: Node, token: Any) -> None:
    assert await refused(node, token) is Unauthenticated
    with pytest.raises(Unauthenticated):
        await node.tokens.refresh(token, HOME)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, str]]:
    """One node and one good token for all examples."""
    node = Node(tmp_path_factory.mktemp("fixed"), Secrets())
    yield node, drive(node.tokens.issue(ADA, drive(node.session()))).access
    drive(node.store.close())


@settings(max_examples=150, deadline=None)
@given(
    shown=st.one_of(
        st.text(), st.text("ABCdef0_-.=", max_size=200), st.binary().map(lambda raw: spelled(raw) + "." * 2)
    )
)
def test_whatever_is_shown_is_refused(shown: str, fixed: tuple[Node, str]) -> None:
    node, _ = fixed
    with pytest.raises(Unauthenticated):
        drive(node.tokens.validate(shown, HOME))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_token_with_anything_changed_inserted_or_cut_is_none(data: st.DataObject, fixed: tuple[Node, str]) -> None:
    node, token = fixed
    at = data.draw(st.integers(0, len(token) - 1))
    text = data.draw(st.text(st.characters(max_codepoint=255), max_size=3))
    changed = token[:at] + text + token[at + data.draw(st.integers(0, 3)) :]
    if changed != token:
        with pytest.raises(Unauthenticated):
            drive(node.tokens.validate(changed, HOME))


def test_a_token_with_any_one_character_changed_is_none(fixed: tuple[Node, str]) -> None:
    node, token = fixed
    drive(node.tokens.validate(token, HOME))
    for at, character in enumerate(token):
        for instead in {"A", "B", "_", ".", "=", chr(ord(character) ^ 1)} - {character}:
            with pytest.raises(Unauthenticated):
                drive(node.tokens.validate(token[:at] + instead + token[at + 1 :], HOME))


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


async def test_the_key_before_still_counts_and_the_one_before_that_does_not(node: Node, secrets: Secrets) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    for kind in ("access", "refresh"):
        secrets.turn(kind, 2)
    await node.tokens.validate(pair.access, HOME)
    second = await node.tokens.refresh(pair.refresh, HOME)
    assert parts(second.access)[0]["kid"] == "access-2"
    for kind in ("access", "refresh"):
        secrets.turn(kind, 3)
    assert await refused(node, pair.access) is Unauthenticated
    await node.tokens.validate(second.access, HOME)
    await node.tokens.refresh(second.refresh, HOME)


# ── refresh ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_refresh_gives_the_next_tokens_and_the_old_access_token_its_grace(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    node.ambient.advance(200)
    second = await node.tokens.refresh(pair.refresh, HOME)
    assert second.claims.generation == 2
    assert second.claims.exp == pair.claims.exp + 200
    await node.tokens.validate(second.access, HOME)
    node.ambient.advance(GRACE - 1e-6)
    await node.tokens.validate(pair.access, HOME)
    node.ambient.advance(1e-6)
    assert await refused(node, pair.access) is TokenRevoked
    await node.tokens.validate(second.access, HOME)


async def test_the_same_client_that_asks_again_gets_the_same_again(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    second = await node.tokens.refresh(pair.refresh, HOME)
    for asked in (node, other):
        asked.ambient.advance(RETRY)
        again = await asked.tokens.refresh(pair.refresh, HOME)
        assert (again.access, again.refresh) == (second.access, second.refresh)


async def test_a_refresh_token_shown_again_later_ends_the_family(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    second = await node.tokens.refresh(pair.refresh, HOME)
    node.ambient.advance(RETRY + 1e-6)
    with pytest.raises(TokenRevoked):
        await node.tokens.refresh(pair.refresh, HOME)
    assert node.audited == [("refresh_token_reused", "prn_ada")]
    assert await refused(node, second.access) is TokenRevoked
    with pytest.raises(TokenRevoked):
        await node.tokens.refresh(second.refresh, HOME)


@pytest.mark.parametrize("thief", [AWAY, Request(address=HOME.address, user_agent="other"), Request()])
async def test_a_refresh_token_shown_by_another_client_ends_the_family_at_once(node: Node, thief: Request) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    second = await node.tokens.refresh(pair.refresh, HOME)
    with pytest.raises(TokenRevoked):
        await node.tokens.refresh(pair.refresh, thief)
    assert await refused(node, second.access) is TokenRevoked


async def test_a_thief_who_is_first_is_found_out_when_the_owner_comes(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    stolen = await other.tokens.refresh(pair.refresh, AWAY)
    with pytest.raises(TokenRevoked):
        await node.tokens.refresh(pair.refresh, HOME)
    assert await refused(other, stolen.access, AWAY) is TokenRevoked


async def test_two_nodes_that_refresh_at_once_make_one_successor(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    nodes = [node, other] * 8
    found = await asyncio.gather(*(asked.tokens.refresh(pair.refresh, HOME) for asked in nodes))
    assert len({(each.access, each.refresh) for each in found}) == 1
    assert found[0].claims.generation == 2
    third = await other.tokens.refresh(found[0].refresh, HOME)
    assert third.claims.generation == 3


async def test_two_clients_that_refresh_at_once_end_the_family(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    found = await asyncio.gather(
        node.tokens.refresh(pair.refresh, HOME), other.tokens.refresh(pair.refresh, AWAY), return_exceptions=True
    )
    assert [type(each) for each in found].count(TokenRevoked) == 1
    won = next(each for each in found if not isinstance(each, BaseException))
    assert await refused(node, won.access) is TokenRevoked


async def test_a_family_ends_when_nobody_refreshes_and_in_any_case(node: Node) -> None:
    brief = node.made(Settings(refresh=600, family=1000))
    idle = await brief.issue(ADA, await node.session())
    kept = await brief.issue(ADA, await node.session())
    node.ambient.advance(599)
    kept = await brief.refresh(kept.refresh, HOME)
    node.ambient.advance(1)
    with pytest.raises(TokenExpired):
        await brief.refresh(idle.refresh, HOME)
    node.ambient.advance(399)
    kept = await brief.refresh(kept.refresh, HOME)
    assert kept.claims.exp * SECOND <= node.ambient.now() + SECOND, "no access token outlives its family"
    node.ambient.advance(1)
    with pytest.raises(TokenExpired):
        await brief.refresh(kept.refresh, HOME)


# ── rotation ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_sensitive_request_replaces_its_token_which_has_its_grace(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    sensitive = msgspec.structs.replace(HOME, sensitive=True)
    found = await node.tokens.validate(pair.access, sensitive)
    assert found.verdict.rotate
    new = await node.tokens.rotate(found)
    assert new is not None
    fresh = (await other.tokens.validate(new, HOME)).claims
    assert (fresh.exp, fresh.family) == (pair.claims.exp, pair.claims.family)
    assert fresh.jti != pair.claims.jti
    for each in (node, other):
        each.ambient.advance(GRACE - 1e-6)
        await each.tokens.validate(pair.access, HOME)
        each.ambient.advance(1e-6)
        assert await refused(each, pair.access) is TokenRevoked
    await node.tokens.validate(new, HOME)


async def test_requests_in_flight_together_are_led_to_one_successor(node: Node, other: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    asked = [(each, await each.tokens.validate(pair.access, HOME)) for each in (node, other) * 4]
    found = await asyncio.gather(*(each.tokens.rotate(validated) for each, validated in asked))
    assert len(set(found)) == 1
    assert found[0] is not None
    await node.tokens.validate(found[0], HOME)


async def test_a_replaced_token_leads_a_thief_nowhere(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    mine = await node.tokens.validate(pair.access, HOME)
    theirs = await node.tokens.validate(pair.access, AWAY)
    assert await node.tokens.rotate(mine) is not None
    assert await node.tokens.rotate(theirs) is None
    await node.tokens.refresh(pair.refresh, HOME)
    assert await node.tokens.rotate(mine) is None, "the client has newer tokens"


# ── revocation ────────────────────────────────────────────────────────────────────────────────────


async def test_what_one_node_takes_back_counts_nowhere_from_the_next_request_on(node: Node, other: Node) -> None:
    session, elsewhere = await node.session(), await node.session()
    one, two = await node.tokens.issue(ADA, session), await node.tokens.issue(ADA, session)
    three, far = await node.tokens.issue(ADA, session), await node.tokens.issue(ADA, elsewhere)
    for pair in (one, two, three, far):
        await other.tokens.validate(pair.access, HOME)
    await node.tokens.revoke(session, jti=one.claims.jti)
    assert await refused(other, one.access) is TokenRevoked
    await other.tokens.validate((await other.tokens.refresh(one.refresh, HOME)).access, HOME)
    await node.tokens.revoke(session, family=two.claims.family)
    assert await refused(other, two.access) is TokenRevoked
    with pytest.raises(TokenRevoked):
        await other.tokens.refresh(two.refresh, HOME)
    await node.tokens.revoke(session)
    assert await refused(other, three.access) is TokenRevoked
    await other.tokens.validate(far.access, HOME)
    await node.tokens.revoke_all(ADA.principal)
    assert await refused(other, far.access) is TokenRevoked
    with pytest.raises(TokenRevoked):
        await other.tokens.refresh(far.refresh, HOME)
    await other.tokens.validate((await other.tokens.issue(ADA, elsewhere)).access, HOME)


async def test_taking_back_what_is_not_there_writes_nothing(node: Node) -> None:
    session = await node.session()
    await node.tokens.revoke(session)
    with pytest.raises(NotFound):
        await node.system.log.head(named("_perdure", f"tokens:{session}"))


async def test_a_principal_taken_back_by_a_node_whose_clock_lags_is_taken_back(node: Node, other: Node) -> None:
    node.ambient.advance(3)
    pair = await node.tokens.issue(ADA, await node.session())
    await other.tokens.revoke_all(ADA.principal)
    assert await refused(node, pair.access) is TokenRevoked


# ── rate and anomaly ──────────────────────────────────────────────────────────────────────────────


class Counting:
    """A guard that counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.wait, self.odd = 0, False

    def admit(self, claims: Any, request: Request) -> int:
        self.asked.append("rate")
        return self.wait

    def suspicious(self, claims: Any, request: Request) -> bool:
        self.asked.append("anomaly")
        return self.odd


async def test_only_requests_that_pass_are_counted(node: Node) -> None:
    guard = Counting()
    guarded = node.made(guard=guard)
    pair = await guarded.issue(ADA, await node.session(), address=HOME.address)
    for token, request in ((pair.access[:-1], HOME), (pair.access, AWAY)):
        with pytest.raises(Unauthenticated):
            await guarded.validate(token, request)
    assert guard.asked == []
    await guarded.validate(pair.access, HOME)
    assert guard.asked == ["rate", "anomaly"]
    guard.wait = 1_500_000
    with pytest.raises(RateLimited) as caught:
        await guarded.validate(pair.access, HOME)
    assert caught.value.retry_after == 2
    assert guard.asked == ["rate", "anomaly", "rate"]


class Listening(Node):
    """A node that also hears whether a request went on."""

    async def audit(self, word: str, claims: Claims | None, request: Request, *, passed: bool = False) -> None:
        self.audited.append((word, "went on" if passed else "refused"))


async def test_unusual_requests_are_flagged_or_blocked_and_the_audit_log_hears_which(tmp_path: Path) -> None:
    node = Listening(tmp_path, Secrets())
    guard = Counting()
    guard.odd = True
    flagging, blocking = node.made(guard=guard), node.made(Settings(block=True), guard=guard)
    pair = await flagging.issue(ADA, await node.session())
    assert (await flagging.validate(pair.access, HOME)).verdict.flagged
    with pytest.raises(Denied):
        await blocking.validate(pair.access, HOME)
    await flagging.refresh(pair.refresh, HOME)
    words = ["went on", "refused", "went on"]
    assert node.audited == [("anomalous_request", word) for word in words]
    await node.store.close()


# ── long lives ────────────────────────────────────────────────────────────────────────────────────


async def test_a_long_log_is_read_back_to_its_latest_sum_and_no_further(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "EVERY", 20)
    monkeypatch.setattr(notes, "_PAGE", 4)
    session = await node.session()
    first = await node.tokens.issue(ADA, session)
    pair = first
    for _ in range(60):
        node.ambient.advance(1)
        pair = await node.tokens.refresh(pair.refresh, HOME)
    reads = 0
    run = other.store.run

    async def counted(source: SessionId, **how: Any) -> Any:
        nonlocal reads
        reads += 1
        return await run(source, **how)

    other.store.run = counted  # type: ignore[method-assign]
    other.ambient.advance(60)
    found = await other.tokens.validate(pair.access, HOME)
    assert found.claims.generation == 61
    assert reads <= 7, "60 entries in pages of 4 would be 15"
    reads = 0
    await other.tokens.validate(pair.access, HOME)
    assert reads == 0, "nothing new is nothing read"
    with pytest.raises(TokenRevoked):
        await other.tokens.refresh(first.refresh, HOME)


async def test_those_who_ask_together_share_looks(node: Node) -> None:
    pair = await node.tokens.issue(ADA, await node.session())
    looks = 0
    head = node.store.head
    watched = named("_perdure", f"tokens:{pair.claims.session}")

    async def counted(session: SessionId) -> Any:
        nonlocal looks
        looks += session == watched
        await asyncio.sleep(0)
        return await head(session)

    node.store.head = counted  # type: ignore[method-assign]
    await asyncio.gather(*(node.tokens.validate(pair.access, HOME) for _ in range(50)))
    assert 1 <= looks <= 3


async def test_a_look_that_began_before_is_not_believed(node: Node, other: Node) -> None:
    """A request that comes while a look is under way must see what was revoked before it came."""
    pair = await node.tokens.issue(ADA, await node.session())
    session, reached, go_on = pair.claims.session, asyncio.Event(), asyncio.Event()
    head = node.store.head

    async def held(asked: SessionId) -> Any:
        found = await head(asked)
        if asked == named("_perdure", f"tokens:{session}") and not reached.is_set():
            reached.set()
            await go_on.wait()
        return found

    node.store.head = held  # type: ignore[method-assign]
    early = asyncio.create_task(node.tokens.validate(pair.access, HOME))
    await reached.wait()
    await other.tokens.revoke(session)
    late = asyncio.create_task(node.tokens.validate(pair.access, HOME))
    await asyncio.sleep(0.01)
    go_on.set()
    await early
    with pytest.raises(TokenRevoked):
        await late
