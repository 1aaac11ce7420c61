"""`vars` with a type of the application's: a Struct, a dataclass or a pydantic model, through versions of itself."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
import pytest

from perdure import Migrations, declare
from perdure.core.errors import Invalid, NoMigrationPath, SchemaError

Opens = Callable[..., Awaitable[Any]]


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Stop(msgspec.Struct):
    city: str
    nights: int = 1


class TripStruct(msgspec.Struct):
    title: str = ""
    stops: list[Stop] = []
    mood: Mood | None = None
    left: datetime | None = None
    lasts: timedelta = timedelta(0)
    tags: set[str] = set()


@dataclass
class DataStop:
    city: str
    nights: int = 1


@dataclass
class TripDataclass:
    title: str = ""
    stops: list[DataStop] = field(default_factory=list)
    mood: Mood | None = None
    left: datetime | None = None
    lasts: timedelta = timedelta(0)
    tags: set[str] = field(default_factory=set)


def models() -> list[Any]:
    found: list[Any] = [(TripStruct, Stop), (TripDataclass, DataStop)]
    try:
        from pydantic import BaseModel
    except ImportError:
        return found

    class PydanticStop(BaseModel):
        city: str
        nights: int = 1

    class TripPydantic(BaseModel):
        title: str = ""
        stops: list[PydanticStop] = []
        mood: Mood | None = None
        left: datetime | None = None
        lasts: timedelta = timedelta(0)
        tags: set[str] = set()

    return [*found, (TripPydantic, PydanticStop)]


@pytest.mark.parametrize(("model", "stop"), models(), ids=lambda cls: cls.__name__)
async def test_a_model_goes_in_and_comes_out_the_same(opens: Opens, model: Any, stop: Any) -> None:
    trip = declare(model, name="Trip")
    session = await (await opens()).create(declared=trip)
    assert await session.vars(trip) == model()
    value = model(
        title="Lisbon",
        stops=[stop(city="Porto"), stop(city="Faro", nights=3)],
        mood=Mood.GOOD,
        left=datetime(2026, 1, 31, 12, tzinfo=UTC),
        lasts=timedelta(days=5),
        tags={"sun", "sea"},
    )
    await session.set_vars(value, trip)
    again = await (await opens()).session(session.id)
    assert await again.vars(trip) == value
    kept = (await again.state()).vars
    assert (kept.schema, kept.schema_version) == ("Trip", "1.0.0")
    assert kept.document["stops"][1] == {"city": "Faro", "nights": 3}
    value.title = "changed outside"
    assert (await again.vars(trip)).title == "Lisbon"


async def test_a_session_may_begin_with_an_instance(db: Any) -> None:
    trip = declare(TripStruct)
    session = await db.create(vars=TripStruct(title="Lisbon"), declared=trip)
    assert (await session.vars(trip)).title == "Lisbon"
    with pytest.raises(Invalid, match="declared="):
        await db.create(vars=TripStruct())
    with pytest.raises(SchemaError):
        await db.create(vars={"title": "Lisbon"}, declared=trip)


async def test_what_does_not_fit_the_model_says_where(db: Any) -> None:
    trip = declare(TripStruct)
    session = await db.create(vars={"title": 5})
    with pytest.raises(SchemaError, match="title"):
        await session.vars(trip)
    session = await db.create()
    with pytest.raises(SchemaError, match="pass a TripStruct"):
        await session.set_vars({"title": "x"}, trip)
    with pytest.raises(Invalid, match="title"):
        await session.set_vars(TripStruct(title=float("nan")), trip)  # type: ignore[arg-type]
    assert (await session.state()).vars.document == {}


class Old(msgspec.Struct):
    name: str = ""


class New(msgspec.Struct):
    first: str = ""
    last: str = ""


async def test_an_older_document_is_migrated_when_it_is_read(opens: Opens) -> None:
    session = await (await opens()).create(vars=Old(name="Ana Silva"), declared=declare(Old, name="Person"))
    migrations = Migrations()

    @migrations.step("1.0.0", "2.0.0")
    def split(old: dict[str, Any]) -> dict[str, Any]:
        first, _, last = old["name"].partition(" ")
        return {"first": first, "last": last}

    person = declare(New, name="Person", version="2.0.0", migrations=migrations)
    again = await (await opens()).session(session.id)
    assert await again.vars(person) == New(first="Ana", last="Silva")
    assert (await again.state()).vars.schema_version == "1.0.0"
    await again.set_vars(New(first="Bo", last="Silva"), person)
    kept = (await again.state()).vars
    assert (kept.document, kept.schema_version) == ({"first": "Bo", "last": "Silva"}, "2.0.0")
    assert await again.vars(person) == New(first="Bo", last="Silva")
    with pytest.raises(NoMigrationPath):
        await again.vars(declare(New, name="Person", version="3.0.0"))


async def test_what_a_newer_minor_wrote_survives_an_older_one(db: Any) -> None:
    class Newer(msgspec.Struct):
        name: str = ""
        age: int | None = None

    session = await db.create(vars=Newer(name="Ana", age=40), declared=declare(Newer, name="P", version="1.1.0"))
    old = declare(Old, name="P", version="1.0.0")
    person = await session.vars(old)
    person.name = "Bo"
    await session.set_vars(person, old)
    kept = (await session.state()).vars
    assert (kept.document, kept.schema_version) == ({"name": "Bo", "age": 40}, "1.1.0")
