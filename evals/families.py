"""Families of facts that are easily confused with each other, each with many ways to say it.

A family has some subjects and some attributes of theirs; of an attribute there are values, each in one or more
spellings, wordings that say it, and wordings that tell of a change. Two notes of one attribute say the same, or the
later one makes the earlier one untrue, however they are worded; two of different attributes have nothing to do with
each other, however alike they look. The sets of `evals.wordings` are spaces as they are; these are made to be read.
"""

import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

FAMILIES = Path(__file__).parent / "families.jsonl.xz"


class Attribute(NamedTuple):
    """What may be said of a subject: `one` value at a time, `many` at once, or one that is `fixed`."""

    name: str
    kind: Literal["one", "many", "fixed"]
    values: list[list[str]]
    wordings: list[str]
    updates: list[str]


class Family(NamedTuple):
    """Attributes of the same subjects."""

    field: str
    name: str
    subjects: list[str]
    attributes: list[Attribute]


class Told(NamedTuple):
    """Two notes, and what the later one is to the earlier one: 0 for neither, 1 for the same, 2 for newer."""

    older: str
    newer: str
    verdict: int


def families() -> list[Family]:
    """All there are."""
    with lzma.open(FAMILIES, "rt", encoding="utf-8") as file:
        told = [json.loads(line) for line in file]
    return [
        Family(each["field"], each["family"], each["subjects"], [Attribute(**one) for one in each["attributes"]])
        for each in told
    ]


def told(family: Family, rng: random.Random) -> Iterator[Told]:
    """Pairs of notes of a family."""
    for attribute in family.attributes:
        others = [other for other in family.attributes if other is not attribute]
        yield from _repeated(family, attribute, rng)
        yield from _changed(family, attribute, rng)
        for other in others:
            yield from _confused(family, attribute, other, rng)
        for _ in range(3):
            subject, another = rng.sample(family.subjects, 2)
            value, instead = rng.sample(attribute.values, 2)
            one, two = rng.sample(attribute.wordings, 2)
            yield Told(said(one, subject, value, rng), said(two, another, rng.choice([value, instead]), rng), 0)


def _repeated(family: Family, attribute: Attribute, rng: random.Random) -> Iterator[Told]:
    for _ in range(6):
        subject, value = rng.choice(family.subjects), rng.choice(attribute.values)
        one, two = rng.sample(attribute.wordings, 2)
        yield Told(said(one, subject, value, rng), said(two, subject, value, rng), 1)


def _changed(family: Family, attribute: Attribute, rng: random.Random) -> Iterator[Told]:
    """Notes with two values: the later one holds, unless there may be several."""
    verdict = 0 if attribute.kind == "many" else 2
    for time in range(4 if attribute.kind == "fixed" else 8):
        subject = rng.choice(family.subjects)
        value, instead = rng.sample(attribute.values, 2)
        one, two = rng.sample(attribute.wordings, 2)
        older = said(one, subject, value, rng)
        if attribute.updates and time % 3 == 2:
            two = rng.choice(attribute.updates)
        elif attribute.updates and time == 3:
            before = rng.choice([each for each in attribute.values if each not in (value, instead)])
            older = said(rng.choice(attribute.updates), subject, value, rng, before)
        yield Told(older, said(two, subject, instead, rng, value), verdict)


def _confused(family: Family, attribute: Attribute, other: Attribute, rng: random.Random) -> Iterator[Told]:
    """Notes of two attributes: with the same value where they can, with others, and one that tells of a change."""
    for time in range(6):
        subject, value = rng.choice(family.subjects), rng.choice(attribute.values)
        instead = value if time % 2 and value in other.values else rng.choice(other.values)
        changes = other.updates if time == 4 else []
        before = value if value in other.values and value != instead else rng.choice(other.values)
        wording = rng.choice(changes or other.wordings)
        if "{o}" in wording and before == instead:
            wording = rng.choice(other.wordings)
        yield Told(
            said(rng.choice(attribute.wordings), subject, value, rng), said(wording, subject, instead, rng, before), 0
        )


def said(wording: str, subject: str, value: list[str], rng: random.Random, before: list[str] | None = None) -> str:
    """A wording of one value of a subject, in one of its spellings."""
    text = wording.replace("{s}", subject).replace("{v}", rng.choice(value))
    text = text.replace("{o}", rng.choice(before) if before else "")
    return text[:1].upper() + text[1:]
