"""`vars` with a type: the application declares a model, perdure stores plain data and gives the model back.

A model is a msgspec Struct, a dataclass, a pydantic model, or `dict` for data without a declared type.
Invariant: what a newer minor of the application wrote survives a round trip through an older one (`carry`).
"""

from typing import Any, Generic, TypeVar

from msgspec import MsgspecError

from perdure.core.errors import Invalid, NoMigrationPath, SchemaError
from perdure.core.session import models
from perdure.core.session.packing import encode
from perdure.core.session.schema import Field, Migrations, SemVer, compatible
from perdure.core.session.values import DOCUMENT_LIMITS, Limits, clone, same

T = TypeVar("T")


class Declared(Generic[T]):
    """A model with its name, its schema version and the migrations that lead to it."""

    def __init__(self, model: type[T], name: str, version: str, migrations: Migrations, limits: Limits) -> None:
        self.model = model
        self.name = name
        self.version = version
        self.migrations = migrations
        self._limits = limits

    def __repr__(self) -> str:
        return f"Declared({self.name} {self.version})"

    def initial(self) -> T:
        """Make the first instance, from defaults alone. Raises `SchemaError` if a field has none."""
        try:
            return self.model()
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"{self.name} cannot start from defaults ({error}); give every field one, or pass the first instance"
            ) from error

    def fields(self) -> tuple[Field, ...]:
        """Describe the model for `schema.compare`."""
        return tuple(models.fields(self.model))

    def dump(self, obj: T) -> dict[str, Any]:
        """Turn an instance into a plain document that shares nothing mutable with it.

        Raises `SchemaError` if it is no instance of the model, `Invalid` naming the path if it holds something that
        is not storable.
        """
        if not isinstance(obj, self.model):
            raise SchemaError(f"this is a {type(obj).__name__}; pass a {self.model.__name__}")
        try:
            document: Any = obj if self.model is dict else models.plain(obj)
        except RecursionError as error:
            raise Invalid(f"{self.name} holds something that holds itself; break the circle") from error
        if type(document) is not dict:
            raise SchemaError(f"{self.name} is not written as a map; declare it without array_like")
        encode(document, self._limits)
        found: dict[str, Any] = clone(document) if self.model is dict else document
        return found

    def load(self, document: dict[str, Any], stored_version: str | None = None) -> T:
        """Make an instance of a stored document, migrated if its version needs that; without one, it is current.

        Raises `SchemaError` if the document does not fit, `NoMigrationPath` if its version cannot be reached from.
        """
        found = self._migrated(document, stored_version)
        if stored_version is not None and SemVer.parse(self.version) < SemVer.parse(stored_version):
            found = models.readable(self.model, found)
        instance: T = models.build(self.model, clone(found))
        return instance

    def carry(self, old: dict[str, Any], obj: T, stored_version: str | None = None) -> dict[str, Any]:
        """Turn an instance into a document and keep what `old` has and the model does not know: unknown fields of the
        record and of records in it, and unknown variants that the application has not overwritten."""
        raw = self._migrated(old, stored_version)
        before = self.dump(models.build(self.model, clone(models.readable(self.model, raw))))
        carried: dict[str, Any] = _carry(raw, before, self.dump(obj))
        return carried

    def stamp(self, stored_version: str | None) -> str:
        """Give the version to write a carried document with: the newer one, as long as both read each other."""
        if stored_version is not None and compatible(stored_version, self.version):
            return str(max(SemVer.parse(stored_version), SemVer.parse(self.version), key=SemVer.precedence))
        return self.version

    def _migrated(self, document: dict[str, Any], stored_version: str | None) -> dict[str, Any]:
        if stored_version is None or stored_version == self.version:
            return document
        try:
            return self.migrations.migrate(document, stored_version, self.version)
        except NoMigrationPath:
            if compatible(stored_version, self.version):
                return document
            raise


def _carry(old: Any, before: Any, after: Any) -> Any:
    """Put what changed between `before` and `after` into `old`. What the model does not know is in `old` alone."""
    if type(old) is dict and type(before) is dict and type(after) is dict:
        carried = {key: clone(item) for key, item in old.items() if key not in before}
        for key, item in after.items():
            carried[key] = _carry(old[key], before[key], item) if key in old and key in before else item
        return carried
    return clone(old) if same(before, after) else after


def declare(
    model: type[T],
    *,
    name: str | None = None,
    version: str = "1.0.0",
    migrations: Migrations | None = None,
    limits: Limits = DOCUMENT_LIMITS,
) -> Declared[T]:
    """Declare a model for `vars`. Raises `SchemaError` if it is none, `Invalid` if the version is no version."""
    SemVer.parse(version)
    if model is not dict and not models.is_record(model):
        raise SchemaError(f"{model!r} declares no fields; pass a msgspec Struct, a dataclass, a pydantic model or dict")
    declared = Declared(model, name or model.__name__, version, migrations or Migrations(), limits)
    try:
        declared.fields()
        models.learn(model)
    except (MsgspecError, NameError, TypeError) as error:
        raise SchemaError(f"the fields of {declared.name} cannot be read ({error}); correct its annotations") from error
    return declared
