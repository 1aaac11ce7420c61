"""`auto`: the same choice for the same ask, dearer for what is harder, and always with its reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid
from perdure.core.talk.parts import Ask, Call, Media, Result, Said, Text, Tool
from perdure.core.talk.prices import Rates
from perdure.core.talk.routing import ANSWER, Facts, Option, chosen, difficulty, facts_of


def option(model: str, price: int, window: int = 100_000) -> Option:
    return Option(model=model, rates=Rates(input=price, output=5 * price, cache_read=0, cache_write=0), window=window)


SMALL, MIDDLE, LARGE = option("small", 1), option("middle", 3), option("large", 15)
OPTIONS = st.lists(
    st.builds(option, st.sampled_from("abcdef"), st.integers(0, 3), st.sampled_from([100, 5_000, 10**6])),
    min_size=1,
    max_size=6,
)
FACTS = st.builds(
    Facts,
    tokens=st.integers(0, 10**6),
    answer=st.integers(0, 10_000),
    asked=st.integers(0, 10**5),
    parts=st.integers(0, 100),
    tools=st.integers(0, 50),
    rounds=st.integers(0, 50),
    code=st.booleans(),
    pictures=st.booleans(),
)


def ask(words: str, *, max_tokens: int | None = None, tools: tuple[Tool, ...] = ()) -> Ask:
    message = Said(role="user", blocks=(Text(text=words),))
    return Ask(model="auto", messages=(message,), max_tokens=max_tokens, tools=tools)


@given(FACTS, OPTIONS, st.randoms())
def test_the_order_in_which_models_are_named_changes_nothing(
    facts: Facts, options: list[Option], chance: object
) -> None:
    mixed = list(options)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert chosen(facts, mixed) == chosen(facts, options)


@given(FACTS, OPTIONS)
def test_a_model_that_the_ask_does_not_fit_is_chosen_only_when_none_is_wide_enough(
    facts: Facts, options: list[Option]
) -> None:
    model, why = chosen(facts, options)
    windows = [item.window for item in options if item.model == model]
    assert why
    assert max(windows) >= min(facts.tokens + facts.answer, max(item.window for item in options))


@given(FACTS, FACTS, OPTIONS)
def test_what_is_harder_never_goes_to_a_cheaper_model(one: Facts, other: Facts, options: list[Option]) -> None:
    wide = [option(f"{item.model}{at}", item.rates.input, 10**9) for at, item in enumerate(options)]
    price = {item.model: item.rates.input for item in wide}
    easy, hard = sorted([one, other], key=lambda facts: difficulty(facts)[0])
    assert price[chosen(easy, wide).model] <= price[chosen(hard, wide).model]


@given(FACTS)
def test_difficulty_is_a_number_up_to_a_hundred_and_has_reasons(facts: Facts) -> None:
    points, reasons = difficulty(facts)
    assert 0 <= points <= 100
    assert bool(points) is bool(reasons)


def test_a_greeting_goes_to_the_cheapest_and_hard_work_to_the_dearest() -> None:
    models = [LARGE, SMALL, MIDDLE]
    assert chosen(ask("hello"), models).model == "small"
    work = "\n".join(f"{number}. Why does parse(line) -> {{}} fail here?\nvalue = parse(line);" for number in range(40))
    tools = (Tool(name="read"), Tool(name="write"))
    model, why = chosen(ask(work, tools=tools), models)
    assert model == "large"
    assert "code" in why
    assert "number 3 of 3 by price" in why


def test_an_ask_that_no_window_holds_goes_to_the_widest_and_it_is_said() -> None:
    model, why = chosen(ask("x " * 500), [option("narrow", 9, 100), option("wide", 1, 200)])
    assert (model, why.split(";")[0]) == ("wide", f"no window holds {facts_of(ask('x ' * 500)).tokens + ANSWER} tokens")


def test_the_answer_needs_room_too() -> None:
    options = [option("narrow", 1, 2_000), option("wide", 9, 200_000)]
    assert chosen(ask("hello", max_tokens=1_500), options).model == "narrow"
    assert chosen(ask("hello", max_tokens=2_000), options).model == "wide"


def test_the_shape_of_an_ask_is_that_of_the_users_last_words_and_the_work_since() -> None:
    rounds = [
        Said(role="assistant", blocks=(Call(id="a", name="look"),)),
        Said(role="user", blocks=(Result(call="a", content=(Media(media_type="image/png", data=b"1"),)),)),
    ]
    first = Said(role="user", blocks=(Text(text="old\n```\nx = 1\n```"),))
    last = Said(role="user", blocks=(Text(text="why? and how?\n- one\n- two"),))
    messages = (first, *rounds, Said(role="assistant", blocks=(Text(text="so"),)), last, *rounds, *rounds)
    found = facts_of(Ask(model="auto", messages=messages))
    assert (found.parts, found.rounds, found.code, found.pictures) == (4, 2, False, True)
    assert facts_of(Ask(model="auto", messages=(first,))).code
    assert facts_of(Ask(model="auto", messages=())).asked == 0


@pytest.mark.parametrize("text", ["x = 1\ny = 2", "foo(a, b);\nbar();", "<p>one</p> and </b>", "if (a) {\n  b;\n}"])
def test_code_is_told_by_its_marks(text: str) -> None:
    assert facts_of(ask(text)).code


@pytest.mark.parametrize(
    "text", ["Dear Ann, how are you (and the dog)?", "Was ist das; und warum?", "1 + 1 = 2, right?"]
)
def test_prose_is_no_code(text: str) -> None:
    assert not facts_of(ask(text)).code


def test_without_models_there_is_nothing_to_choose() -> None:
    with pytest.raises(Invalid, match="name at least one"):
        chosen(Facts(), [])
