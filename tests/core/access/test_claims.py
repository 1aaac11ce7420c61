"""The order in which a request is judged, and what becomes of the tokens of a family."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access import families as kin
from perdure.core.access.claims import (
    LONGEST,
    SECOND,
    SKEW,
    Claims,
    Confirmation,
    Facts,
    Failure,
    Kind,
    Request,
    Standing,
    Step,
    actor_of,
    client,
    error_of,
    judge,
    well_formed,
)
from perdure.core.access.families import GRACE, RETRY, Family, Issued, Refreshed, Revoked, Rotated, Summed, Turn
from perdure.core.access.roles import Actor, Role, scoped
from perdure.core.errors import Denied, RateLimited, TokenExpired, TokenRevoked, Unauthenticated

NOW = 1_767_268_800
A, B, C, D = ("A" * 43, "B" * 43, "C" * 43, "D" * 43)
CLAIMS = Claims(
    iss="perdure", aud="perdure", typ=Kind.ACCESS, jti=A, iat=NOW, nbf=NOW, exp=NOW + 300, family=B, generation=1,
    tenant="acme", session="s", owner="ada", principal="prn_1", name="ada", roles=(Role.OWNER,), scopes=("*",),
    credential="key_1",
)  # fmt: skip
GOOD = Facts(now=NOW * SECOND, claims=CLAIMS, revoked=False, standing=Standing("ada", False))

FAULTS: list[tuple[Failure, dict[str, object]]] = [
    (Failure.SIGNATURE, {"claims": None}),
    (Failure.EXPIRED, {"now": (NOW + 300) * SECOND}),
    (Failure.REVOKED, {"revoked": True}),
    (Failure.SESSION, {"standing": None}),
    (Failure.ADDRESS, {"bound_addresses": True}),
    (Failure.RATE, {"wait": 1}),
    (Failure.ANOMALY, {"suspicious": True, "block": True}),
]
"""One fault for each step, in the order of the steps."""


def replaced(**changes: object) -> Facts:
    return msgspec.structs.replace(GOOD, **changes)


def test_a_request_with_nothing_against_it_goes_on() -> None:
    assert judge(GOOD).ok
    assert judge(GOOD).audit is None


@pytest.mark.parametrize(("failure", "fault"), FAULTS)
def test_each_fault_alone_is_found_by_its_step(failure: Failure, fault: dict[str, object]) -> None:
    verdict = judge(replaced(**fault))
    assert (verdict.ok, verdict.failure, verdict.audit) == (False, failure, failure.word)


@given(st.sets(st.sampled_from(range(len(FAULTS))), min_size=1))
def test_of_many_faults_the_first_in_the_order_decides(chosen: set[int]) -> None:
    facts = replaced(**{name: value for index in chosen for name, value in FAULTS[index][1].items()})
    assert judge(facts).failure is FAULTS[min(chosen)][0]


def test_the_faults_of_this_test_cover_every_step_in_order() -> None:
    assert [failure.step for failure, _ in FAULTS] == list(Step)


def test_what_was_not_looked_up_fails() -> None:
    assert judge(Facts(now=NOW * SECOND, claims=CLAIMS)).failure is Failure.REVOKED
    assert judge(Facts(now=NOW * SECOND, claims=CLAIMS, revoked=False)).failure is Failure.SESSION


def test_a_token_counts_until_the_last_moment_before_its_expiry_and_not_at_it() -> None:
    edge = CLAIMS.exp * SECOND
    assert judge(replaced(now=edge - 1)).ok
    assert judge(replaced(now=edge)).failure is Failure.EXPIRED


def test_a_signer_ahead_by_a_little_is_believed_and_by_more_is_not() -> None:
    assert judge(replaced(now=(NOW - SKEW) * SECOND)).ok
    assert judge(replaced(now=(NOW - SKEW) * SECOND - 1)).failure is Failure.EARLY
    late = msgspec.structs.replace(CLAIMS, iat=NOW + 60)
    assert judge(replaced(claims=late)).failure is Failure.EARLY


def test_an_ended_session_another_session_and_another_owner_are_refused() -> None:
    assert judge(replaced(standing=Standing("ada", True))).failure is Failure.SESSION
    assert judge(replaced(target="other")).failure is Failure.ELSEWHERE
    assert judge(replaced(target="other", standing=Standing("ada", True))).failure is Failure.SESSION
    assert judge(replaced(target="s")).ok
    assert judge(replaced(standing=Standing("bob", False))).failure is Failure.OWNER


def test_a_token_shown_elsewhere_says_what_it_opens_and_what_is_none_what_would_be_one() -> None:
    told = error_of(judge(replaced(target="other")), CLAIMS)
    assert (type(told), "this token opens session s and nothing else" in told.message) == (Denied, True)
    unknown = error_of(judge(replaced(claims=None)))
    assert "token" in unknown.message
    assert "key" in unknown.message


def test_a_holder_that_is_gone_holds_nothing() -> None:
    assert judge(replaced(holder=False)).failure is Failure.REVOKED


def test_a_bound_address_must_match_and_where_all_are_bound_none_is_no_match() -> None:
    bound = msgspec.structs.replace(CLAIMS, address="10.0.0.1")
    assert judge(replaced(claims=bound, address="10.0.0.1")).ok
    assert judge(replaced(claims=bound, address="10.0.0.2")).failure is Failure.ADDRESS
    assert judge(replaced(claims=bound, address=None)).failure is Failure.ADDRESS
    assert judge(replaced(address=None, bound_addresses=True)).failure is Failure.ADDRESS


def test_a_bound_key_must_be_proven() -> None:
    bound = msgspec.structs.replace(CLAIMS, cnf=Confirmation(jkt=C))
    assert judge(replaced(claims=bound)).failure is Failure.PROOF
    assert judge(replaced(claims=bound, proven=D)).failure is Failure.PROOF
    assert judge(replaced(claims=bound, proven=C)).ok


def test_an_unusual_request_is_flagged_or_blocked_as_told() -> None:
    flagged = judge(replaced(suspicious=True))
    assert (flagged.ok, flagged.flagged, flagged.audit) == (True, True, "anomalous_request")
    assert not judge(replaced(suspicious=True, block=True)).ok


def test_only_a_sensitive_request_that_passes_rotates() -> None:
    assert judge(replaced(sensitive=True)).rotate
    assert not judge(GOOD).rotate
    assert not judge(replaced(sensitive=True, revoked=True)).rotate


def test_each_failure_has_its_error() -> None:
    kinds = {failure: type(error_of(judge(replaced(**fault)))) for failure, fault in FAULTS}
    assert kinds == {
        Failure.SIGNATURE: Unauthenticated,
        Failure.EXPIRED: TokenExpired,
        Failure.REVOKED: TokenRevoked,
        Failure.SESSION: Unauthenticated,
        Failure.ADDRESS: Unauthenticated,
        Failure.RATE: RateLimited,
        Failure.ANOMALY: Denied,
    }
    assert error_of(judge(replaced(wait=SECOND + 1))).fields == {"retry_after": 2}


@pytest.mark.parametrize(
    "change",
    [{"typ": Kind.REFRESH}, {"iss": "x"}, {"aud": "x"}, {"exp": NOW + LONGEST + 1}, {"exp": NOW - 1}],
)
def test_claims_of_another_kind_or_place_or_too_long_a_life_are_not_ours(change: dict[str, object]) -> None:
    assert well_formed(CLAIMS, Kind.ACCESS, "perdure", "perdure", LONGEST)
    assert not well_formed(msgspec.structs.replace(CLAIMS, **change), Kind.ACCESS, "perdure", "perdure", LONGEST)


def test_what_a_holder_lost_its_token_lost_too() -> None:
    claims = msgspec.structs.replace(CLAIMS, roles=(Role.ADMIN, Role.OWNER), scopes=("*",))
    holder = Actor(tenant="acme", principal="prn_1", name="ada", roles=frozenset({Role.OWNER, Role.VIEWER}))
    assert actor_of(claims, holder).roles == {Role.OWNER}
    narrower = msgspec.structs.replace(holder, scopes=("read:turns",))
    assert scoped(actor_of(claims, narrower).scopes) == scoped(("read:turns",))
    assert actor_of(claims, None).session == "s"


def test_clients_differ_by_address_agent_and_key_and_only_by_them() -> None:
    one = Request(address="a", user_agent="b", operation="x")
    assert client(one, None) == client(Request(address="a", user_agent="b", operation="y"), None)
    others = {client(one, "k"), client(Request(address="ab", user_agent=""), None), client(Request(address="a"), None)}
    assert client(one, None) not in others
    assert len(others) == 3


# ── families ──────────────────────────────────────────────────────────────────────────────────────

AT = NOW * SECOND
BEGUN = Issued(
    family=B, principal="prn_1", epoch=0, jti=A, kid="k", handle=kin.hashed(C), client="me",
    at=AT, until=AT + 3600 * SECOND, ends=AT + 86400 * SECOND,
)  # fmt: skip
SHOWN = msgspec.structs.replace(CLAIMS, typ=Kind.REFRESH, jti=C)


def after(*entries: kin.Entry) -> kin.Families:
    families = kin.BLANK
    for entry in entries:
        families = kin.fold(families, entry)
    return families


def refreshed(generation: int = 2, at: int = AT, jti: str = D, client: str = "me") -> Refreshed:
    until = at + 3600 * SECOND
    return Refreshed(
        family=B, generation=generation, jti=jti, kid="k", handle=kin.hashed(D), client=client, at=at, until=until
    )


def test_only_the_family_s_own_access_token_counts() -> None:
    families = after(BEGUN)
    assert kin.counts(families, CLAIMS, 0, AT)
    for change in ({"jti": D}, {"family": C}, {"principal": "prn_2"}, {"generation": 2}):
        assert not kin.counts(families, msgspec.structs.replace(CLAIMS, **change), 0, AT)
    assert not kin.counts(families, CLAIMS, 1, AT), "all of the principal's were taken back since"


def test_a_replaced_access_token_has_its_grace_and_no_more() -> None:
    for entry in (Rotated(family=B, jti=D, client="me", at=AT), refreshed()):
        families = after(BEGUN, entry)
        assert kin.counts(families, CLAIMS, 0, AT + GRACE * SECOND - 1)
        assert not kin.counts(families, CLAIMS, 0, AT + GRACE * SECOND)


def test_a_refresh_token_is_good_once_again_for_its_client_and_then_a_sign_of_theft() -> None:
    fresh = after(BEGUN)[B]
    assert kin.renewal(fresh, SHOWN, "anyone", AT) is Turn.NEXT
    used = after(BEGUN, refreshed())[B]
    assert kin.renewal(used, SHOWN, "me", AT + RETRY * SECOND) is Turn.AGAIN
    assert kin.renewal(used, SHOWN, "me", AT + RETRY * SECOND + 1) is Turn.REUSED
    assert kin.renewal(used, SHOWN, "thief", AT) is Turn.REUSED
    twice = after(BEGUN, refreshed(), refreshed(3))[B]
    assert kin.renewal(twice, SHOWN, "me", AT) is Turn.REUSED


def test_a_refresh_token_of_the_right_generation_needs_the_right_handle() -> None:
    assert kin.renewal(after(BEGUN)[B], msgspec.structs.replace(SHOWN, jti=A), "me", AT) is Turn.REUSED


def test_a_replaced_access_token_leads_only_its_own_client_to_the_successor() -> None:
    family = after(BEGUN, Rotated(family=B, jti=D, client="me", at=AT))[B]
    assert kin.rotation(family, CLAIMS, "me", AT) is Turn.AGAIN
    assert kin.rotation(family, CLAIMS, "thief", AT) is Turn.NONE
    assert kin.rotation(family, CLAIMS, "me", AT + GRACE * SECOND) is Turn.NONE
    assert kin.rotation(family, msgspec.structs.replace(CLAIMS, jti=D), "thief", AT) is Turn.NEXT


def test_revoking_takes_one_token_one_family_or_all() -> None:
    other = msgspec.structs.replace(BEGUN, family=C, jti=C)
    families = after(BEGUN, other, Revoked(at=AT, jti=A))
    assert not kin.counts(families, CLAIMS, 0, AT)
    assert kin.refreshable(families, SHOWN, 0, AT), "the next one may still be fetched"
    assert set(after(BEGUN, other, Revoked(at=AT, family=B))) == {C}
    assert after(BEGUN, other, Revoked(at=AT)) == {}


def test_a_revoked_token_is_not_brought_back_by_its_grace() -> None:
    families = after(BEGUN, Rotated(family=B, jti=D, client="me", at=AT), Revoked(at=AT, jti=A))
    assert not kin.counts(families, CLAIMS, 0, AT)


def test_a_generation_out_of_turn_changes_nothing() -> None:
    assert after(BEGUN, refreshed(3)) == after(BEGUN)
    assert after(refreshed(2)) == {}


def test_families_that_are_over_are_dropped_and_their_number_is_bounded() -> None:
    late = msgspec.structs.replace(BEGUN, family=C, at=BEGUN.until, until=BEGUN.until + 1)
    assert set(after(BEGUN, late)) == {C}
    assert kin.live(after(BEGUN), BEGUN.until) == {}
    many = [msgspec.structs.replace(BEGUN, family=f"{n:043}", until=BEGUN.until + n) for n in range(kin.FAMILIES + 1)]
    assert set(after(*many)) == {entry.family for entry in many[1:]}


names, handles = st.sampled_from("BC"), st.sampled_from("ADE")
steps = st.one_of(
    st.builds(lambda f, j: msgspec.structs.replace(BEGUN, family=f, jti=j), names, handles),
    st.builds(lambda f, g: msgspec.structs.replace(refreshed(g), family=f), names, st.integers(2, 5)),
    st.builds(lambda f, j: Rotated(family=f, jti=j, client="me", at=AT), names, handles),
    st.builds(lambda f, j: Revoked(at=AT, family=f, jti=j), st.none() | names, st.none() | handles),
)


@given(st.lists(steps, max_size=12), st.integers(0, 12))
def test_a_sum_stands_for_everything_before_it(entries: list[kin.Entry], cut: int) -> None:
    summed = Summed(families=dict(kin.live(after(*entries[:cut]), AT)))
    again = msgspec.convert(msgspec.to_builtins(summed), kin.Entry)
    assert after(again, *entries[cut:]) == after(*entries)


@given(st.lists(steps, max_size=12))
def test_generations_never_fall_but_where_a_family_begins_anew(entries: list[kin.Entry]) -> None:
    story = [after(*entries[:count]) for count in range(len(entries) + 1)]
    for (before, now), entry in zip(pairwise(story), entries, strict=True):
        for name in set(before) & set(now):
            assert now[name].generation >= before[name].generation or isinstance(entry, Issued)


def test_epochs_count_and_are_summed_up() -> None:
    once = kin.fold_epochs(kin.NO_EPOCHS, kin.Disowned(principal="p", at=1))
    assert kin.fold_epochs(once, kin.Disowned(principal="p", at=1)) == {"p": 2}
    assert kin.fold_epochs(kin.NO_EPOCHS, kin.Counted(epochs={"p": 2})) == {"p": 2}


def test_a_family_keeps_nobody_s_name_and_no_handle() -> None:
    kept = msgspec.json.encode(after(BEGUN)[B]).decode()
    assert C not in kept
    assert "ada" not in kept
    assert set(Family.__struct_fields__).isdisjoint({"name", "address", "owner"})
