"""Names of models lead to upstreams: by prefix, alias, price or default; what leads nowhere is told."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, UnknownModel
from perdure.core.talk.prices import Prices, read
from perdure.core.talk.routes import OFFLINE, Candidate, Models, Upstream, checked, route

ANTHROPIC = Upstream(name="anthropic", kind="anthropic", key="sk-ant-very-secret")
OPENAI = Upstream(name="openai", kind="openai-responses")
ROUTER = Upstream(name="router", kind="openai-chat", base_url="https://router.example/api/v1/")
BOTH = Models(
    upstreams={"anthropic": ANTHROPIC, "openai": OPENAI, "router": ROUTER},
    aliases={"best": "claude-opus-5", "quick": "openai/gpt-5-mini", "mine": "best"},
    fallbacks={"best": ("quick", "router/meta/llama"), "openai/gpt-5": ("anthropic/claude-opus-5",)},
    default="mine",
    cheap="quick",
)


def prices() -> Prices:
    rates = {"input": 1, "output": 1, "cache_read": 1, "cache_write": 1}
    return read(
        {
            "as_of": "2026-01-01",
            "prices": [
                {"provider": "anthropic", "models": ["claude-*"], "rates": rates, "window": 1000},
                {"provider": "openai", "models": ["gpt-5", "gpt-5-mini"], "rates": rates, "window": 1000},
                {"provider": "offline", "models": ["*"], "rates": rates, "window": 1000},
            ],
        }
    )


def first(models: Models, model: str | None) -> tuple[str, str]:
    found = route(models, model, prices()).candidates[0]
    return found.provider, found.model


def test_a_model_is_found_by_its_upstream_its_alias_or_its_price() -> None:
    assert first(BOTH, "anthropic/claude-opus-5") == ("anthropic", "claude-opus-5")
    assert first(BOTH, "quick") == ("openai", "gpt-5-mini")
    assert first(BOTH, "mine") == first(BOTH, None) == first(BOTH, "") == ("anthropic", "claude-opus-5")
    assert first(BOTH, "gpt-5") == ("openai", "gpt-5")
    assert first(BOTH, "openai/anything") == ("openai", "anything")


def test_an_upstream_with_a_name_of_its_own_sells_what_its_family_does() -> None:
    models = Models(upstreams={"ours": Upstream(name="ours", kind="openai-chat"), "anthropic": ANTHROPIC})
    assert first(models, "gpt-5") == ("ours", "gpt-5")
    assert first(models, "claude-x") == ("anthropic", "claude-x")


def test_a_name_nobody_sells_is_the_default_upstreams() -> None:
    models = msgspec.structs.replace(BOTH, default="anthropic/claude-opus-5")
    assert first(models, "unheard-of") == ("anthropic", "unheard-of")
    assert first(BOTH, "unheard-of") == ("anthropic", "unheard-of"), "also when the default is an alias of a bare name"
    lone = Models(upstreams={"openai": OPENAI})
    assert first(lone, "unheard-of") == ("openai", "unheard-of")


def test_an_upstream_elsewhere_has_what_it_lists_and_no_more() -> None:
    local = Upstream(name="local", kind="openai-chat", base_url="http://127.0.0.1:11434/v1", models=("qwen3", "gpt-5"))
    silent = msgspec.structs.replace(local, models=())
    models = Models(upstreams={"local": local, "anthropic": ANTHROPIC}, default="anthropic/claude-opus-5")
    assert first(models, "qwen3") == ("local", "qwen3")
    assert route(models, "qwen3").candidates[0].provider == "local", "also where no price is known at all"
    assert first(models, "gpt-5") == ("local", "gpt-5")
    assert first(models, "gpt-5-mini") == ("anthropic", "gpt-5-mini"), "a name nobody lists is the default upstream's"
    other = msgspec.structs.replace(models, upstreams={"local": silent, "anthropic": ANTHROPIC})
    assert first(other, "gpt-5") == ("anthropic", "gpt-5")
    mine = Models(upstreams={"local": silent, "openai": OPENAI}, default="local/qwen3")
    assert first(mine, "gpt-5") == ("openai", "gpt-5"), "who is known to have it goes before the default upstream"
    assert first(mine, "unheard-of") == ("local", "unheard-of")
    with pytest.raises(UnknownModel, match="local/qwen3"):
        route(msgspec.structs.replace(models, default=""), "unheard-of", prices())


def test_an_upstream_says_its_own_address_as_it_likes() -> None:
    assert OPENAI.public
    assert msgspec.structs.replace(OPENAI, base_url="https://api.openai.com/v1/").public
    assert not ROUTER.public


def test_slashes_are_part_of_a_name_where_others_models_are_sold() -> None:
    models = msgspec.structs.replace(BOTH, default="router/meta/llama")
    assert first(models, "mistral/large") == ("router", "mistral/large")
    assert first(models, "router/anthropic/claude-x") == ("router", "anthropic/claude-x")
    with pytest.raises(UnknownModel, match=r"openai/…"):
        route(msgspec.structs.replace(BOTH, default="openai/gpt-5"), "mistral/large", prices())


@pytest.mark.parametrize("name", ["nowhere/x", "auto", "unheard-of"])
def test_what_leads_nowhere_is_told_with_what_there_is(name: str) -> None:
    with pytest.raises(UnknownModel, match="best") as caught:
        route(msgspec.structs.replace(BOTH, default="openai/gpt-5" if "/" in name else ""), name, prices())
    assert caught.value.model == name
    assert caught.value.near


def test_without_a_default_a_model_must_be_named() -> None:
    with pytest.raises(UnknownModel, match="name one"):
        route(Models(upstreams={"openai": OPENAI}), None)


def test_fallbacks_follow_the_first_choice_by_whatever_name_it_was_asked_for() -> None:
    expected = (
        Candidate(provider="anthropic", model="claude-opus-5", form="anthropic"),
        Candidate(provider="openai", model="gpt-5-mini", form="openai-responses"),
        Candidate(provider="router", model="meta/llama", form="openai-chat"),
    )
    assert route(BOTH, "best", prices()).candidates == expected
    assert route(BOTH, "mine", prices()).candidates == expected
    assert [found.provider for found in route(BOTH, "gpt-5", prices()).candidates] == ["openai", "anthropic"]
    assert len(route(BOTH, "claude-opus-5", prices()).candidates) == 1


def test_a_fallback_for_all_counts_where_no_other_is_named_and_nobody_is_asked_twice() -> None:
    models = msgspec.structs.replace(BOTH, fallbacks={**BOTH.fallbacks, "*": ("quick",)})
    assert len(route(models, "best", prices()).candidates) == 3
    assert [found.model for found in route(models, "gpt-5", prices()).candidates] == ["gpt-5", "claude-opus-5"]
    assert [found.model for found in route(models, "claude-x", prices()).candidates] == ["claude-x", "gpt-5-mini"]
    assert [found.model for found in route(models, "quick", prices()).candidates] == ["gpt-5-mini"]


def test_without_configuration_the_built_in_model_answers_to_every_name() -> None:
    assert first(OFFLINE, None) == ("offline", "offline")
    assert first(OFFLINE, "gpt-5") == ("offline", "offline/gpt-5"), "which says who answers"
    assert first(OFFLINE, "offline/gpt-5") == ("offline", "gpt-5")
    assert first(OFFLINE, "offline-small") == ("offline", "offline-small")
    assert route(OFFLINE, None).candidates[0].form == ""


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([*"abcd", "openai/x", "y", "no/where"])),
    st.sampled_from([*"abcd", "openai/x", "y"]),
)
def test_aliases_never_go_round_for_ever(aliases: dict[str, str], name: str) -> None:
    models = Models(upstreams={"openai": OPENAI}, aliases=aliases, default="a")
    try:
        found = route(models, name)
    except (UnknownModel, Invalid):
        return
    assert found.asked == name
    assert found.candidates[0].provider == "openai"


def test_a_key_is_in_no_repr() -> None:
    shown = repr(Models(upstreams={"x": Upstream(name="x", kind="anthropic", key="sk-1", headers={"a": "sk-2"})}))
    assert "x" in shown
    assert "sk-" not in shown


def test_sound_models_pass_and_each_flaw_is_named() -> None:
    assert checked(BOTH, prices()) is BOTH
    assert checked(OFFLINE) is OFFLINE
    flaws = {
        "there is no upstream": {"upstreams": {}},
        "name must be": {"upstreams": {"a": OPENAI}},
        "begin with http": {"upstreams": {"a": Upstream(name="a", kind="anthropic", base_url="ftp://x")}},
        "neither a user": {"upstreams": {"a": Upstream(name="a", kind="anthropic", base_url="https://u:p@x")}},
        "one printable line": {"upstreams": {"a": Upstream(name="a", kind="anthropic", key="a\nb")}},
        "circle": {"aliases": {"a": "b", "b": "a"}},
        "no model 'no/where'": {"fallbacks": {"*": ("no/where",)}},
    }
    for told, flaw in flaws.items():
        with pytest.raises((Invalid, UnknownModel), match=told):
            checked(
                msgspec.structs.replace(
                    msgspec.structs.replace(BOTH, aliases={}, default="", cheap="", fallbacks={}), **flaw
                ),
                prices(),
            )
