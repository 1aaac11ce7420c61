"""What can be counted in a space: who has the same terms, of how many something is said, who is worded alike."""

from perdure.core.memory.crowds import COMMON, Crowds, Several
from perdure.core.memory.gists import gist_of
from perdure.core.memory.statements import read

PEOPLE = ("Ana Berg", "Omar Diaz", "Lena Ford", "Ivan Gray", "Nora Hill")


def crowds(*texts: str) -> Crowds:
    return Crowds([gist_of(text, read(text)) for text in texts])


def test_memories_are_counted_that_have_all_of_some_terms() -> None:
    found = crowds("Ana Berg lives in Oslo", "Ana Berg lives in Rome", "Ana Holm lives in Oslo")
    assert (found.count("oslo"), found.count("nowhere")) == (2, 0)
    assert (found.held(frozenset({"ana", "berg"})), found.held(frozenset({"ana", "nowhere"}))) == (2, 0)
    assert found.held(frozenset()) == 0


def test_it_is_told_of_how_many_something_is_said_and_how_often_of_one() -> None:
    said = [f"Ana Berg likes {food}" for food in ("ramen", "falafel", "goulash")]
    found = crowds(*said, "Omar Diaz likes ramen", "Omar Diaz likes paella", "Lena Ford likes ramen")
    assert found.several(frozenset({"like"})) == Several(memories=6, subjects=3, twice=2, thrice=1, most=3)
    assert found.several(frozenset({"nowhere"})) == found.several(frozenset()) == Several()


def test_those_are_worded_alike_that_differ_in_what_few_have() -> None:
    assert len(PEOPLE) >= COMMON
    texts = [f"{who} eats {food}" for who, food in zip(PEOPLE, ("ramen", "soup", "rice", "corn", "bread"), strict=True)]
    found = crowds(*texts, "The gate is shut")
    assert len({*found.wording[:5]}) == 1
    assert found.worded[found.wording[0]] == 5
    assert found.wording[5] not in found.wording[:5]


def test_it_is_counted_where_else_one_value_stands_instead_of_another() -> None:
    tools = ["The wiki of team A is Notion", "The wiki of team B is Slab", "Ana Berg logs into Notion"]
    found = crowds(*tools, *(f"The wiki of team {letter} is Coda" for letter in "CDEFG"))
    one, other = frozenset({"notion"}), frozenset({"slab"})
    assert found.wording[0] == found.wording[1] != found.wording[2]
    assert found.instead(one, other, frozenset()) == 1
    assert found.instead(one, other, frozenset({found.wording[0]})) == 0
    assert found.instead(one, frozenset({"nowhere"}), frozenset()) == 0
