"""Declared vars: a model goes in, plain data is stored, the model comes back; newer data survives an older reader."""

import dataclasses
import inspect
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, Optional
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.errors import Invalid, NoMigrationPath, SchemaError, TooDeep, TooLarge
from perdure.core.session.codec import decode, encode
from perdure.core.session.declared import Declared, declare
from perdure.core.session.schema import Change, Field, Migrations, compare
from perdure.core.session.values import Limits, Ref, same
from tests.core.session.plain_values import NAIVE, documents


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class StructItem(msgspec.Struct, frozen=True):
    name: str
    price: float = 0.0


class StructCart(msgspec.Struct):
    owner: str = "nobody"
    items: list[StructItem] = []
    tags: set[str] = set()
    first: StructItem | None = None
    by_name: dict[str, StructItem] = {}
    opened: datetime | None = None
    patience: timedelta = timedelta(0)
    picture: bytes = b""
    color: Color = Color.RED
    level: Level = Level.LOW
    ids: frozenset[UUID] = frozenset()
    day: date | None = None
    total: Decimal = Decimal(0)
    pair: tuple[int, str] = (0, "")
    by_number: dict[int, str] = {}
    free: Any = None
    ref: Ref | None = None


@dataclasses.dataclass(frozen=True)
class DataItem:
    name: str
    price: float = 0.0


@dataclasses.dataclass
class DataCart:
    owner: str = "nobody"
    items: list[DataItem] = dataclasses.field(default_factory=list)
    tags: set[str] = dataclasses.field(default_factory=set)
    first: DataItem | None = None
    by_name: dict[str, DataItem] = dataclasses.field(default_factory=dict)
    opened: datetime | None = None
    patience: timedelta = timedelta(0)
    picture: bytes = b""
    color: Color = Color.RED
    level: Level = Level.LOW
    ids: frozenset[UUID] = frozenset()
    day: date | None = None
    total: Decimal = Decimal(0)
    pair: tuple[int, str] = (0, "")
    by_number: dict[int, str] = dataclasses.field(default_factory=dict)
    free: Any = None
    ref: Ref | None = None
    shared: ClassVar[int] = 3


class ModelItem(pydantic.BaseModel, frozen=True):
    name: str
    price: float = 0.0


class ModelCart(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    owner: str = "nobody"
    items: list[ModelItem] = []
    tags: set[str] = set()
    first: ModelItem | None = None
    by_name: dict[str, ModelItem] = {}
    opened: datetime | None = None
    patience: timedelta = timedelta(0)
    picture: bytes = b""
    color: Color = Color.RED
    level: Level = Level.LOW
    ids: frozenset[UUID] = frozenset()
    day: date | None = None
    total: Decimal = Decimal(0)
    pair: tuple[int, str] = (0, "")
    by_number: dict[int, str] = {}
    free: Any = None
    ref: Ref | None = None


KINDS: list[tuple[Any, Any]] = [(StructCart, StructItem), (DataCart, DataItem), (ModelCart, ModelItem)]
kinds = pytest.mark.parametrize(("cart", "item"), KINDS, ids=["struct", "dataclass", "pydantic"])
ZONE = timezone(timedelta(hours=2))


def full(cart: Any, item: Any) -> Any:
    return cart(
        owner="ann",
        items=[item(name="tea", price=1.5), item(name="cake")],
        tags={"a", "b"},
        first=item(name="tea", price=1.5),
        by_name={"tea": item(name="tea")},
        opened=datetime(2024, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
        patience=timedelta(minutes=5),
        picture=b"\x00\xff",
        color=Color.BLUE,
        level=Level.HIGH,
        ids=frozenset({UUID(int=1), UUID(int=2)}),
        day=date(2024, 1, 31),
        total=Decimal("1.10"),
        pair=(1, "x"),
        by_number={1: "one", 2: "two"},
        free={"any": [1, {2}, None]},
        ref=Ref(uri="x", sha256=bytes(32)),
    )


PLAIN = {
    "owner": "ann",
    "items": [{"name": "tea", "price": 1.5}, {"name": "cake", "price": 0.0}],
    "tags": {"a", "b"},
    "first": {"name": "tea", "price": 1.5},
    "by_name": {"tea": {"name": "tea", "price": 0.0}},
    "opened": datetime(2024, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
    "patience": timedelta(minutes=5),
    "picture": b"\x00\xff",
    "color": "blue",
    "level": 2,
    "ids": {str(UUID(int=1)), str(UUID(int=2))},
    "day": "2024-01-31",
    "total": "1.10",
    "pair": [1, "x"],
    "by_number": {"1": "one", "2": "two"},
    "free": {"any": [1, {2}, None]},
    "ref": Ref(uri="x", sha256=bytes(32)),
}


@kinds
def test_every_kind_of_model_is_stored_as_the_same_plain_data(cart: Any, item: Any) -> None:
    assert same(declare(cart).dump(full(cart, item)), PLAIN)


@kinds
def test_what_is_dumped_is_loaded(cart: Any, item: Any) -> None:
    declared = declare(cart)
    for obj in (cart(), full(cart, item)):
        document = decode(encode(declared.dump(obj)))
        assert declared.load(document, "1.0.0") == obj
        assert same(declared.dump(declared.load(document, "1.0.0")), document)


@kinds
def test_nothing_mutable_is_shared_with_the_stored_document(cart: Any, item: Any) -> None:
    declared = declare(cart)
    obj = full(cart, item)
    document = declared.dump(obj)
    obj.items.clear()
    obj.free["any"].clear()
    assert same(document, PLAIN)
    loaded = declared.load(document)
    loaded.free["any"].clear()
    loaded.by_name.clear()
    assert same(document, PLAIN)


@kinds
def test_another_time_zone_is_the_same_moment(cart: Any, item: Any) -> None:
    declared = declare(cart)
    moment = datetime(2024, 1, 31, 14, 0, tzinfo=ZONE)
    assert declared.dump(cart(opened=moment))["opened"] == moment
    assert declared.load(declared.dump(cart(opened=moment))).opened == moment


@kinds
@pytest.mark.parametrize(
    ("change", "path"),
    [({"opened": NAIVE}, "opened"), ({"free": [object()]}, r"free\[0\]"), ({"free": {"x": float("nan")}}, r"free\.x")],
)
def test_what_is_not_storable_is_refused_with_its_path(cart: Any, item: Any, change: Any, path: str) -> None:
    with pytest.raises(Invalid, match=f"at {path}: "):
        declare(cart).dump(cart(**change))


@kinds
def test_a_document_that_does_not_fit_is_refused(cart: Any, item: Any) -> None:
    declared = declare(cart)
    for bad in ({"owner": 1}, {"items": [{"price": 1.0}]}, {"color": "green"}, {"patience": []}):
        with pytest.raises(SchemaError, match="does not fit"):
            declared.load(bad, "1.0.0")
    with pytest.raises(SchemaError):
        declared.dump("no cart")  # type: ignore[arg-type]


@kinds
def test_missing_optional_fields_take_their_defaults(cart: Any, item: Any) -> None:
    assert declare(cart).load({"owner": "ann"}) == cart(owner="ann")
    assert declare(cart).initial() == cart()


# ── a newer minor ─────────────────────────────────────────────────────────────────────────────────

NEWER = {
    "owner": "ann",
    "coupon": {"code": "X", "tags": {1}},
    "first": {"name": "tea", "price": 1.5, "origin": "Assam"},
    "items": [{"name": "tea", "price": 1.5, "origin": "Assam"}],
    "color": "green",
}


@kinds
def test_a_newer_minor_is_read_and_survives(cart: Any, item: Any) -> None:
    declared = declare(cart, version="1.2.0")
    obj = declared.load(NEWER, "1.3.0")
    assert obj.owner == "ann"
    assert obj.color is Color.RED
    obj.owner = "bob"
    carried = declared.carry(NEWER, obj)
    for name in ("coupon", "first", "items", "color"):
        assert same(carried[name], NEWER[name])
    assert carried["owner"] == "bob"
    assert declared.dump(obj).keys() <= carried.keys()
    assert declared.stamp("1.3.0") == "1.3.0"
    assert declared.stamp("1.1.0") == declared.stamp(None) == "1.2.0"


@kinds
def test_what_the_application_overwrote_is_what_it_wrote(cart: Any, item: Any) -> None:
    declared = declare(cart)
    obj = declared.load(NEWER, "1.1.0")
    obj.color = Color.BLUE
    obj.items = [item(name="cake")]
    obj.first = item(name="milk")
    carried = declared.carry(NEWER, obj)
    assert carried["color"] == "blue"
    assert carried["items"] == [{"name": "cake", "price": 0.0}]
    assert carried["first"] == {"name": "milk", "price": 0.0, "origin": "Assam"}
    obj.first = None
    assert declared.carry(NEWER, obj)["first"] is None


@kinds
def test_a_key_removed_from_a_map_stays_removed(cart: Any, item: Any) -> None:
    declared = declare(cart)
    old = declared.dump(full(cart, item)) | {"unknown": 1}
    obj = declared.load(old)
    del obj.by_number[1]
    obj.by_name.clear()
    carried = declared.carry(old, obj)
    assert carried["by_number"] == {"2": "two"}
    assert carried["by_name"] == {}
    assert carried["unknown"] == 1


@kinds
def test_carrying_without_a_change_keeps_the_document(cart: Any, item: Any) -> None:
    declared = declare(cart)
    old = declared.dump(full(cart, item)) | {"unknown": {"deep": [1]}}
    carried = declared.carry(old, declared.load(old))
    assert same(carried, old)
    carried["unknown"]["deep"].clear()
    assert old["unknown"] == {"deep": [1]}


def test_an_unknown_variant_at_the_same_version_is_an_error() -> None:
    with pytest.raises(SchemaError):
        declare(StructCart).load({"color": "green"}, "1.0.0")


def test_an_unknown_variant_of_a_required_field_is_an_error() -> None:
    class Needs(msgspec.Struct):
        color: Color

    with pytest.raises(SchemaError):
        declare(Needs).load({"color": "green"}, "1.1.0")


def test_models_that_forbid_unknown_fields_still_read_a_newer_minor() -> None:
    class Strict(msgspec.Struct, forbid_unknown_fields=True, tag="strict"):
        mode: Literal["on", "off"] | None = None
        count: int = 0

    class StrictModel(pydantic.BaseModel, extra="forbid"):
        mode: Literal["on", "off"] | None = None
        count: int = 0

    for model in (Strict, StrictModel):
        declared: Declared[Any] = declare(model)
        tag = {"type": "strict"} if model is Strict else {}
        old = tag | {"mode": "dim", "count": 2, "newer": 1}
        obj = declared.load(old, "1.1.0")
        assert (obj.mode, obj.count) == (None, 2)
        obj.count = 3
        assert declared.carry(old, obj, "1.1.0") == tag | {"mode": "dim", "count": 3, "newer": 1}
        with pytest.raises(SchemaError):
            declared.load(old, "1.0.0")


# ── migrations ────────────────────────────────────────────────────────────────────────────────────


def test_an_older_major_is_migrated() -> None:
    migrations = Migrations()

    @migrations.step("1.0.0", "2.0.0")
    def rename(document: dict[str, Any]) -> dict[str, Any]:
        document["owner"] = document.pop("user")
        return document

    declared = declare(StructCart, version="2.1.0", migrations=migrations)
    stored = {"user": "ann", "unknown": 1}
    assert declared.load(stored, "1.0.0").owner == "ann"
    assert declared.carry(stored, StructCart(owner="bob"), "1.0.0")["unknown"] == 1
    assert stored == {"user": "ann", "unknown": 1}
    assert declared.stamp("1.0.0") == "2.1.0"
    with pytest.raises(NoMigrationPath):
        declared.load(stored, "3.0.0")
    with pytest.raises(NoMigrationPath):
        declared.load(stored, "0.1.0")


# ── plain dicts ───────────────────────────────────────────────────────────────────────────────────


@given(documents)
def test_a_plain_dict_needs_no_model(document: Any) -> None:
    declared = declare(dict)
    stored = declared.dump(document)
    assert same(stored, document)
    assert same(declared.load(stored, "1.0.0"), document)
    assert declared.initial() == {}
    assert declared.fields() == ()


@given(documents, documents)
def test_a_plain_dict_knows_all_its_fields(old: Any, new: Any) -> None:
    assert same(declare(dict).carry(old, new), new)


def test_a_plain_dict_is_stored_as_it_is_or_not_at_all() -> None:
    declared = declare(dict)
    for bad in ({"x": Decimal(1)}, {1: 2}, {"c": Color.RED}):
        with pytest.raises(Invalid):
            declared.dump(bad)
    inner: dict[str, Any] = {"list": [1]}
    stored = declared.dump(inner)
    inner["list"].append(2)
    loaded = declared.load(stored)
    loaded["list"].append(3)
    assert stored == {"list": [1]}


# ── shapes of models ──────────────────────────────────────────────────────────────────────────────


def test_documents_use_the_names_that_the_model_gives_them() -> None:
    class Renamed(msgspec.Struct, rename="camel", tag="renamed", omit_defaults=True):
        first_name: str = ""

    class Aliased(pydantic.BaseModel):
        first_name: str = pydantic.Field(default="", alias="firstName")

    renamed = declare(Renamed)
    assert renamed.dump(Renamed()) == {"type": "renamed", "firstName": ""}
    assert renamed.load({"type": "renamed", "firstName": "ann"}) == Renamed("ann")
    aliased = declare(Aliased)
    assert aliased.dump(Aliased(firstName="ann")) == {"firstName": "ann"}
    assert aliased.load({"firstName": "ann"}).first_name == "ann"
    assert [field.name for field in aliased.fields()] == ["firstName"]


def test_odd_corners_of_dataclasses_are_left_to_them() -> None:
    @dataclasses.dataclass
    class Odd:
        given: int = 1
        shared: ClassVar[int] = 2
        made: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            self.made = self.given * 2

    class Heir(Odd):
        pass

    for model in (Odd, Heir):
        declared: Declared[Any] = declare(model)
        assert declared.dump(model(given=4)) == {"given": 4}
        assert declared.load({"given": 4}).made == 8


def test_a_pydantic_validator_has_the_last_word() -> None:
    class Positive(pydantic.BaseModel):
        count: int = 1

        @pydantic.field_validator("count")
        @classmethod
        def positive(cls, value: int) -> int:
            if value < 1:
                raise ValueError("must be positive")
            return value

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def double(self) -> int:
            return self.count * 2

    declared = declare(Positive)
    assert declared.dump(Positive(count=2)) == {"count": 2}
    with pytest.raises(SchemaError, match="must be positive"):
        declared.load({"count": 0})


def test_a_secret_is_refused_rather_than_masked() -> None:
    class Login(pydantic.BaseModel):
        password: pydantic.SecretStr = pydantic.SecretStr("hunter2")
        site: pydantic.AnyUrl = pydantic.AnyUrl("https://example.org/")

    with pytest.raises(Invalid, match="at password"):
        declare(Login).dump(Login())

    class Site(pydantic.BaseModel):
        site: pydantic.AnyUrl

    declared = declare(Site)
    site = Site(site=pydantic.AnyUrl("https://example.org/"))
    assert declared.dump(site) == {"site": "https://example.org/"}
    assert declared.load(declared.dump(site)) == site


def test_records_in_a_set_are_stored_as_a_list() -> None:
    class Holder(msgspec.Struct):
        items: frozenset[StructItem] = frozenset()
        pairs: set[tuple[int, int]] = set()

    declared = declare(Holder)
    holder = Holder(items=frozenset({StructItem("b"), StructItem("a")}), pairs={(1, 2)})
    assert declared.dump(holder) == {
        "items": [{"name": "a", "price": 0.0}, {"name": "b", "price": 0.0}],
        "pairs": {(1, 2)},
    }
    assert declared.load(declared.dump(holder)) == holder


def test_keys_that_would_become_one_are_refused() -> None:
    class Holder(msgspec.Struct):
        numbers: dict[Any, int] = {}

    with pytest.raises(Invalid, match="same text"):
        declare(Holder).dump(Holder(numbers={1: 1, "1": 2}))


def test_something_that_holds_itself_is_refused() -> None:
    cart = StructCart()
    cart.free = [cart]
    with pytest.raises(Invalid, match="holds itself"):
        declare(StructCart).dump(cart)


def test_a_document_stays_within_limits_that_leave_room_around_it() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    with pytest.raises(TooDeep):
        declare(dict).dump({"deep": deep})
    with pytest.raises(TooLarge):
        declare(dict, limits=Limits(max_bytes=10)).dump({"text": "x" * 10})


@pytest.mark.parametrize("model", [int, str, list, object, "StructCart"])
def test_what_declares_no_fields_is_refused(model: Any) -> None:
    with pytest.raises(SchemaError, match="declares no fields"):
        declare(model)


def test_a_declaration_is_checked_at_once() -> None:
    with pytest.raises(Invalid, match="semantic version"):
        declare(StructCart, version="one")

    @dataclasses.dataclass
    class Broken:
        x: "NoSuchType"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match="annotations"):
        declare(Broken)

    class Bare(msgspec.Struct):
        x: int

    with pytest.raises(SchemaError, match="give every field one"):
        declare(Bare).initial()
    assert repr(declare(Bare, name="bare")) == "Declared(bare 1.0.0)"


# ── fields ────────────────────────────────────────────────────────────────────────────────────────


@kinds
def test_fields_are_described_alike_for_every_kind(cart: Any, item: Any) -> None:
    described = {field.name: field for field in declare(cart).fields()}
    reference = {field.name: field for field in declare(StructCart).fields()}
    assert described.keys() == reference.keys()
    for name, field in described.items():
        assert (field.type, field.required, field.variants) == (
            reference[name].type,
            reference[name].required,
            reference[name].variants,
        )
    assert described["owner"] == Field(name="owner", type="str", required=False, default="nobody")
    assert described["first"].type == "None | record"
    assert described["items"].type == "list[record]"
    assert described["items[].name"] == Field(name="items[].name", type="str")
    assert described["by_name[].price"].required is False
    assert described["color"].variants == ("blue", "red")


def test_two_versions_of_a_model_are_compared() -> None:
    class Old(msgspec.Struct):
        name: str
        mode: Literal["on", "off"] = "on"
        size: int = 0

    class New(msgspec.Struct):
        name: str
        mode: Literal["on", "off", "dim"] = "on"
        size: Optional[int] = 0  # noqa: UP045 - both spellings of an option are one type
        note: str = ""

    found = {change.field: change.change for change in compare(declare(Old).fields(), declare(New).fields())}
    assert found == {"mode": Change.ADD_VARIANT, "note": Change.ADD_OPTIONAL, "size": Change.CHANGE_TYPE}


def test_a_model_that_contains_itself_is_described() -> None:
    fields = {field.name for field in declare(Node).fields()}
    assert fields == {"name", "children"}
    tree = Node("a", [Node("b")])
    assert declare(Node).load(declare(Node).dump(tree)) == tree


class Node(msgspec.Struct):
    name: str = ""
    children: list["Node"] = []


def test_importing_it_brings_in_neither_pydantic_nor_dataclasses() -> None:
    root = Path(inspect.getfile(Declared)).parents[2]
    program = (
        "import sys, types, msgspec; base = set(sys.modules);"
        # the package without its front door, which brings in whatever the edges need
        f"sys.modules['perdure'] = types.ModuleType('perdure'); sys.modules['perdure'].__path__ = [{str(root)!r}];"
        "import perdure.core.session.declared, perdure.core.session.statefile, perdure.core.session.merge;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - base})"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    new = set(told.stdout.split())
    assert "perdure" in new
    assert not new & {"pydantic", "dataclasses", "json", "logging", "asyncio"}


item_names = st.text(max_size=5)


@given(
    st.builds(
        StructCart,
        owner=item_names,
        items=st.lists(st.builds(StructItem, name=item_names, price=st.floats(allow_nan=False, allow_infinity=False))),
        tags=st.sets(item_names),
        opened=st.none() | st.datetimes(timezones=st.just(UTC)),
        color=st.sampled_from(Color),
        ids=st.frozensets(st.uuids(), max_size=2),
        total=st.decimals(allow_nan=False, allow_infinity=False),
    ),
    documents,
)
def test_a_struct_goes_there_and_back_and_carries_the_unknown(cart: StructCart, unknown: dict[str, Any]) -> None:
    declared = declare(StructCart)
    document = declared.dump(cart)
    assert declared.load(decode(encode(document))) == cart
    extra = {f"x-{name}": item for name, item in unknown.items()}
    carried = declared.carry(document | extra, cart)
    assert same(carried, document | extra)
