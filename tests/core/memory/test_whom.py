"""Whom memories are about: by their own word, and by what gave way to them."""

import unicodedata
from typing import Any

import pytest

from perdure.core.memory.parts import people, person
from perdure.core.memory.requests import Changing
from perdure.core.memory.revising import is_another
from perdure.core.memory.shelf import Shelf
from perdure.core.memory.tracing import brought, meant, naming, told_again
from perdure.core.memory.whom import about
from perdure.core.session.event import Payload
from perdure.core.session.memories import MemoryChanged, MemoryMoved
from perdure.core.session.redaction import Redacted
from tests.core.memory.test_shelf import kept, more, shelf_of


def gave_way(id: str, by: str, **fields: Any) -> tuple[Payload, Payload]:
    """What a run writes."""
    return (
        MemoryChanged(id=by, before={"supersedes": []}, after={"supersedes": [id], **fields}, run="r"),
        MemoryMoved(id=id, was="live", status="superseded", by=by, run="r"),
    )


def of(name: str) -> Any:
    """Whether it is about somebody."""
    return lambda told: person(name) in people(told.people)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKD"])
def test_people_are_known_by_their_names_however_these_are_written(form: Any) -> None:
    assert person(unicodedata.normalize(form, "José Groß")) == person("JOSÉ GROSS") == person(person("josé groß"))
    assert person("Jose") != person("José")
    assert people(["", "Ana", "ANA"]) == {"ana"}


def test_what_a_run_put_in_the_place_of_another_is_about_whom_that_was_about() -> None:
    shelf = shelf_of(kept("a", subjects=("Zeb",)), kept("b"), kept("c", subjects=("Ana",)))
    more(shelf, *gave_way("a", "b"), *gave_way("b", "c"))
    assert about(shelf) == {"b": {"zeb"}, "c": {"zeb"}}
    assert meant(shelf, of("ZEB"), set()) == {"a", "b", "c"}
    assert shelf.memories["c"].subjects == ("Ana",)


@pytest.mark.parametrize(
    "after",
    [
        (Redacted(versions=(1,)),),
        (MemoryMoved(id="a", was="superseded", status="live", run="r"),),
    ],
)
def test_nothing_is_left_of_a_name_when_that_is_forgotten_or_the_run_undone(after: tuple[Payload, ...]) -> None:
    shelf = shelf_of(kept("a", subjects=("Zeb",)), kept("b"), *gave_way("a", "b"))
    more(shelf, *after)
    assert about(shelf) == {}


def test_what_is_trusted_more_is_about_nobody_by_the_word_of_what_is_trusted_less() -> None:
    shelf = shelf_of(kept("a", subjects=("mallory",), trust="low"), kept("b", trust="high"), *gave_way("a", "b"))
    assert about(shelf) == {}
    assert meant(shelf, of("mallory"), set()) == {"a"}


def test_who_writes_what_takes_the_place_of_another_says_whom_it_is_about() -> None:
    shelf = shelf_of(
        kept("z", subjects=("Zeb",)),
        kept("a", subjects=("Ana",)),
        *gave_way("z", "a"),
        kept("b", supersedes=("a",), subjects=("Ana",)),
        kept("c", supersedes=("b",), subjects=("Bo",)),
    )
    assert about(shelf)["b"] == {"zeb", "ana"}
    assert "c" not in about(shelf)


def test_those_who_are_taken_off_go_with_another_form_of_the_memory() -> None:
    memory = shelf_of(kept("a", subjects=("Ana", "Bo"))).memories["a"]
    assert is_another(memory, Changing(subjects=("Ana",)), "")
    assert is_another(memory, Changing(subjects=()), "")
    assert not is_another(memory, Changing(subjects=("bo", "ANA", "Cy")), "")
    assert not is_another(memory, Changing(importance=1.0), "")


# ── logs in which names were carried, or changed in place ──


def test_names_that_were_changed_in_place_are_found_and_what_stays_is_told_again_without() -> None:
    shelf = shelf_of(
        kept("a"),
        kept("b", subjects=("Zeb",)),
        *gave_way("b", "a", subjects=["Zeb"], accesses=3),
        MemoryChanged(id="a", before={"subjects": ["Zeb"]}, after={"subjects": ["Ana"]}),
        kept("c"),
        MemoryChanged(id="c", before={"subjects": []}, after={"subjects": ["Bo"]}),
    )
    said = naming(shelf, of("zeb"))
    assert [*said] == [3, 5]
    (again,) = told_again(shelf, said.values())
    assert isinstance(again, MemoryChanged)
    assert (again.id, again.before) == ("a", again.after)
    assert again.after == {"supersedes": ("b",), "subjects": ("Ana",), "accesses": 3}
    more(shelf, again)
    assert naming(shelf, of("zeb")).keys() == {3, 5}
    assert naming(shelf, lambda told: told.session == "s") == {}


def test_what_was_kept_as_about_somebody_goes_with_them_whoever_it_is_about_now() -> None:
    shelf = shelf_of(
        kept("a", subjects=("Zeb",)),
        MemoryChanged(id="a", before={"subjects": ["Zeb"]}, after={"subjects": ["Ana"]}),
        MemoryChanged(id="a", before={"subjects": ["Ana"]}, after={"subjects": ["Bo"]}),
    )
    assert meant(shelf, of("zeb"), set()) == {"a"}
    assert meant(shelf, of("bo"), set()) == {"a"}
    assert meant(shelf, of("ana"), set()) == set()
    more(shelf, Redacted(versions=(1, 2, 3)))
    assert naming(shelf, bool) == {}


def test_how_many_come_back_is_what_comes_without_what_goes() -> None:
    moves = (("superseded", "live"), ("quarantined", "live"), ("live", "superseded"), ("archived", "superseded"))
    assert brought([MemoryMoved(id=was, was=was, status=to) for was, to in moves]) == 1
    assert brought([MemoryChanged(id="a")]) == 0
    assert brought([]) == 0


def test_an_empty_shelf_is_about_nobody() -> None:
    assert about(Shelf()) == {}
