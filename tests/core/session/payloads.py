"""Hypothesis strategies for payloads of every kind, read from their declared fields."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from perdure.core.errors import Invalid
from perdure.core.session.event import Payload
from perdure.core.session.kinds import KINDS
from tests.core.session.plain_values import floats, integers, keys, small, values

# Few of each, so that events drawn apart often speak of the same thing.
names = st.sampled_from(["", "a", "b", "c"]) | st.text(max_size=3)
numbers = st.integers(-2, 6) | integers


def drawn(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Values of a declared type."""
    match kind:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return numbers
        case inspect.FloatType():
            return floats
        case inspect.StrType():
            return names
        case inspect.BytesType():
            return st.binary(max_size=4)
        case inspect.AnyType():
            return small | values
        case inspect.EnumType():
            return st.sampled_from(list(kind.cls))
        case inspect.UnionType():
            return st.one_of([drawn(member) for member in kind.types])
        case inspect.VarTupleType():
            return st.lists(drawn(kind.item_type), max_size=3).map(tuple)
        case inspect.TupleType():
            return st.tuples(*map(drawn, kind.item_types))
        case inspect.DictType():
            return st.dictionaries(names | keys, drawn(kind.value_type), max_size=3)
        case inspect.StructType():
            return structs(kind.cls)
        case _:
            raise NotImplementedError(kind)


def structs(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Structs with every field drawn or left at its default."""
    optional, required = {}, {}
    for field in msgspec.structs.fields(cls):
        strategy = drawn(inspect.type_info(field.type)) if field.type is not None else st.none()
        (required if field.required else optional)[field.encode_name] = strategy

    def build(fields: dict[str, Any]) -> st.SearchStrategy[Any]:
        try:
            return st.just(cls(**fields))
        except (ValueError, Invalid):  # the class refuses this combination
            return st.nothing()

    return st.fixed_dictionaries(required, optional=optional).flatmap(build)


payloads: st.SearchStrategy[Payload] = st.sampled_from(sorted(KINDS)).flatmap(lambda kind: structs(KINDS[kind]))
