"""What only makes sense in the process that has the store open, refused here with what to do instead."""

from collections.abc import Callable
from typing import Any, NoReturn

from perdure.core.errors import Refused


def apart(what: str, instead: str) -> Callable[..., NoReturn]:
    """A method that says that this is not done over a connection, and what is."""

    def refuse(_: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise Refused(f"{what} happens where the store is, not over a connection; {instead}", what=what)

    refuse.__doc__ = f"Refused over a connection; {instead}."
    return refuse
