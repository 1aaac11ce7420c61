"""Pairs of statements laid side by side: their signs, and what the signs come to."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.memory.gists import Gist, gist_of
from perdure.core.memory.pairing import NEVER, SURER, Weights, binned, judged, signs, weighed, weights_of
from perdure.core.memory.statements import read


def gist(text: str) -> Gist:
    return gist_of(text, read(text))


class Elsewhere:
    """A space in which all terms are as rare, and some names are those of several."""

    def __init__(self, *shared: str) -> None:
        self.shared = shared

    def rarity(self, term: str) -> float:
        return 5.0

    def is_sole(self, term: str) -> bool:
        return term not in self.shared


def signs_of(older: str, newer: str, *shared: str) -> set[str]:
    return {*signs(gist(older), gist(newer), Elsewhere(*shared))}


def weights(told: Mapping[str, tuple[float, float]], bias: tuple[float, float] = (-3.0, -3.0)) -> Weights:
    return Weights({**told}, bias, (0.9, 0.9), frozenset())


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Ana Berg lives in Oslo", {"ana", "berg"}),
        ("Oslo is where Ana Berg lives", {"ana", "berg"}),
        ("The deadline of Project Heron is Friday", {"heron", "project"}),
        ("heron-api listens on port 8080", {"heron-api"}),
        ("The feature flag for checkout is off", {"checkout", "featur", "flag"}),
    ],
)
def test_a_statement_is_about_what_stands_before_its_verb(text: str, subject: set[str]) -> None:
    assert gist(text).subject == subject


def test_what_is_bare_names_nothing() -> None:
    assert gist("Ana Berg moved to Oslo on 3 May with 2 cats").bare == "moved to on with cats"


def test_ends_and_changes_are_noticed() -> None:
    assert gist("Ana gave up smoking").ending
    assert gist("Ana no longer smokes").ending
    assert gist("The port was changed to 9000").changing
    assert not gist("Ana also plays chess now").changing
    assert gist("Ana was on call on 3 May").event
    plain = gist("Ana plays chess")
    assert (plain.ending, plain.changing, plain.event) == (False, False, False)


def test_one_sentence_but_for_one_value_shows_it() -> None:
    found = signs_of("heron-api is hosted in Oslo", "heron-api is hosted in Rome")
    assert {"slot:name", "slot:last", "in slot:host", "names:1/1", "both:name"} <= found
    assert "slot:#name" in signs_of("Ana reads chapter 3", "Ana reads chapter 7")


def test_another_of_the_same_name_is_parted() -> None:
    assert "parted" in signs_of("Ana Berg lives in Oslo", "Ana Holm lives in Oslo")
    assert "parted" not in signs_of("Ana Berg lives in Oslo", "Ana Berg lives in Rome")


def test_who_is_named_for_the_same_thing_may_have_changed() -> None:
    weights = Weights(signs={}, bias=(0.5, 1.5), sure=(0.5, 0.5), words=frozenset())
    led = gist("Ibrahim Santos is lead maintainer of the docs-site repo")
    for other, told in (("docs-site", (0.5, 1.5)), ("mail-relay", (NEVER, NEVER))):
        taken = gist(f"Amara Park is lead maintainer of the {other} repo")
        assert weighed(led, taken, Elsewhere(), weights) == told


def test_a_name_in_short_is_no_other_name() -> None:
    found = signs_of("Ana Berg lives in Oslo", "Ana lives in Oslo now")
    assert {"short:1", "names:0/0"} <= found
    assert "parted" not in found
    assert "short:2" in signs_of("Ana Berg lives in Oslo", "Ana lives in Oslo now", "ana")


def test_who_has_which_part_is_a_sign() -> None:
    assert "turned" in signs_of("5 ETH went from Ana to Ben today", "5 ETH went from Ben to Ana")
    assert "order:1:0" in signs_of("Alice trains Bob", "Bob trains Alice well")
    assert "order:0:0" in signs_of("We saw Alice train Bob", "Well, we saw Alice train Bob")


def test_vectors_are_a_sign_and_so_is_their_lack() -> None:
    pair = gist("Ana rents a flat"), gist("Ana has a flat for rent")
    assert {"near:?", "kin:?"} <= {*signs(*pair, Elsewhere())}
    assert {"near:6", "kin:-1"} <= {*signs(*pair, Elsewhere(), (3.2, -4.0))}
    assert [binned(each) for each in (None, -9.0, 0.2, 99.0)] == ["?", "-1", "0", "14"]


def test_signs_are_summed_for_both() -> None:
    pair = gist("Ana rents a flat"), gist("Ana has a flat for rent")
    assert weighed(*pair, Elsewhere(), weights({"=rent": (6.0, 0.0)})) == (3.0, -3.0)
    pair = gist("Ana rents 2 flats"), gist("Ana rents 3 flats")
    assert weighed(*pair, Elsewhere(), weights({"=rent": (6.0, 0.0)})) == (NEVER, -3.0)


def test_the_sums_decide_and_say_what_the_odds_are() -> None:
    verdict, odds = judged((3.0, -3.0))
    assert (verdict, odds) == ("same", round(math.log(math.exp(3) + math.exp(-3)), 6))
    assert judged((-3.0, 3.0)) == ("newer", odds)
    assert judged((NEVER, -9.0)) == ("newer", -9.0)


def test_that_two_say_the_same_takes_more() -> None:
    assert judged((3.0, 3.0 - SURER))[0] == "newer"
    assert judged((3.0, 2.9 - SURER))[0] == "same"


def test_weights_are_read_as_they_are_written() -> None:
    told = weights_of(["=flat\t1.50\t-0.25", "+now\t0.00\t2.00", "+now in\t0.1\t0.1", "bias\t-2\t-3", "sure\t0.7\t0.9"])
    assert told.signs == {"=flat": (1.5, -0.25), "+now": (0.0, 2.0), "+now in": (0.1, 0.1)}
    assert (told.bias, told.sure, told.words) == ((-2.0, -3.0), (0.7, 0.9), frozenset({"flat", "now"}))
    assert told.trees == ()
    assert weights_of(["tree\todds<1 0.5 1.5", "bias\t0\t0", "sure\t0.7\t0.9"]).trees == (("odds", 1.0, 0.5, 1.5),)


texts = st.text(max_size=60) | st.lists(
    st.sampled_from("Ana Berg is was in Oslo 7 8% not no longer now 3 May the a flag-x ! . , : @ # moved to".split()),
    max_size=12,
).map(" ".join)


@given(texts, texts)
def test_any_two_texts_can_be_judged(one: str, other: str) -> None:
    found = [*signs(gist(one), gist(other), Elsewhere())]
    assert len(found) == len({*found})
    assert not any("\t" in sign or "\n" in sign for sign in found)
    sums = weighed(gist(one), gist(other), Elsewhere(), weights(dict.fromkeys(found, (900.0, -900.0))))
    assert math.isfinite(judged(sums)[1])
