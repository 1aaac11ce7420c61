"""Which memories are laid beside each other."""

from perdure.core.memory.meeting import LONE, RARE, Terms


def meetings(*told: tuple[set[str], set[str]]) -> set[tuple[int, int]]:
    found = Terms([frozenset(bag) for bag, _ in told], [frozenset(topics) for _, topics in told]).meetings()
    return {(one, other) for _, one, other in found}


def test_a_rare_term_brings_two_together() -> None:
    assert meetings(({"ana", "oslo"}, set()), ({"ana", "rome"}, set()), ({"ben", "riga"}, set())) == {(0, 1)}


def test_a_name_of_many_memories_brings_those_together_that_speak_of_one_thing() -> None:
    crowd: list[tuple[set[str], set[str]]] = [
        ({"ana", f"x{number}"}, {"food"} if number % 2 else {"sport"}) for number in range(RARE + LONE)
    ]
    crowd += [({f"y{number}", f"z{number}"}, set()) for number in range(2_000)]
    one, other = ({"ana", "acme"}, {"job"}), ({"ana", "globex"}, {"job"})
    found = meetings(one, other, *crowd)
    assert (0, 1) in found
    assert not any(0 in pair for pair in found - {(0, 1)})
