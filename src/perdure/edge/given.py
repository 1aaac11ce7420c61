"""What callers hand in, checked at the door: a wrong type or a text that cannot be stored is `Invalid`, by name."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from perdure.core.errors import Invalid
from perdure.core.session.declared import Declared
from perdure.core.session.ids import session_id
from perdure.core.session.origin import Config
from perdure.core.session.values import check

MAX_TEXT = 1000
Time = datetime | int | None


class Conditions(TypedDict, total=False):
    """What `find` can ask for. Times are datetimes, or microseconds; texts match whole words in one append."""

    owner: str | None
    phase: str | Iterable[str] | None
    tags: Iterable[str] | None
    metadata: dict[str, Any] | None
    title: str | None
    text: str | None
    parent: str | None
    open_turn: bool | None
    created_after: Time
    created_before: Time
    active_after: Time
    active_before: Time
    order: Literal["created", "active"]


def text_of(value: Any, what: str) -> str:
    """A short text, or `Invalid`."""
    if type(value) is not str or len(value) > MAX_TEXT:
        raise Invalid(f"{what} is a text of at most {MAX_TEXT} characters, not {value!r:.80}")
    check(value)
    return value


def texts_of(values: Any, what: str) -> tuple[str, ...]:
    """Short texts, or `Invalid`; one text alone is a mistake, not a list of its letters."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise Invalid(f"{what}s are a list of texts, not {values!r:.80}")
    return tuple(text_of(value, what) for value in values)


def number_of(value: Any, what: str) -> int:
    """A whole number, or `Invalid`."""
    if type(value) is not int:
        raise Invalid(f"{what} is a whole number, not {value!r:.80}")
    return value


def document_of(value: dict[str, Any] | None, what: str) -> dict[str, Any]:
    """A plain document, or `Invalid`."""
    if value is not None and type(value) is not dict:
        raise Invalid(f"{what} is a dict, not {type(value).__name__}")
    return value or {}


def config_of(config: Config | dict[str, Any] | None) -> Config | None:
    """A configuration from its fields, checked."""
    if config is None or isinstance(config, Config):
        return config
    try:
        return msgspec.convert(config, Config)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"config: {wrong}") from wrong


def vars_of(value: Any, declared: Declared[Any] | None) -> dict[str, Any]:
    """The first `vars` of a session as the command wants them."""
    if declared is not None:
        document = declared.dump(declared.initial() if value is None else value)
        return {"vars": document, "schema": declared.name, "schema_version": declared.version}
    if value is None:
        return {}
    if type(value) is not dict:
        raise Invalid("vars are a dict, or an instance of a model you declare; pass declared=")
    return {"vars": value}


def query_of(conditions: Conditions) -> dict[str, Any]:
    """The conditions of `find` as the query wants them; an unknown one is `Invalid`."""
    found: dict[str, Any] = {name: value for name, value in conditions.items() if value is not None}
    known = Conditions.__annotations__
    for name in found:
        if name not in known:
            raise Invalid(f"find knows no condition {name}; it knows {', '.join(known)}", condition=name)
    phase = found.pop("phase", ())
    found["phases"] = (phase,) if isinstance(phase, str) else texts_of(phase, "phase")
    found["tags"] = texts_of(found.get("tags", ()), "tag")
    order = found.pop("order", "created")
    if order not in ("created", "active"):
        raise Invalid(f"{order!r} is not an order; use created or active", order=order)
    found["by_activity"] = order == "active"
    if "parent" in found:
        found["parent"] = session_id(found["parent"])
    for name in ("created_after", "created_before", "active_after", "active_before"):
        if isinstance(found.get(name), datetime):
            found[name] = int(found[name].timestamp() * 1_000_000)
    return found
