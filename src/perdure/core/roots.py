"""The roots of the tree of errors; `errors` has the tree."""

from typing import Any, ClassVar


class PerdureError(Exception):
    """Root of the tree. `code` is stable and machine-readable, `fields` are the facts behind the message."""

    code: ClassVar[str] = "perdure_error"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__name__
        cls.code = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        """Fields read as attributes: `error.found` after a `VersionConflict`."""
        fields: dict[str, Any] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {sorted(fields)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.fields))


def _rebuild(cls: type[PerdureError], message: str, fields: dict[str, Any]) -> PerdureError:
    return cls(message, **fields)


class CallerError(PerdureError):
    """The request cannot be served as it is."""


class ConflictError(PerdureError):
    """Somebody else was first."""


class WorldError(PerdureError):
    """The disk, the file or another version stands in the way."""
