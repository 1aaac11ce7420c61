"""Whether the stores under torture are sealed: said once, and heard by every process below through the environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.sealing.opening import VAULT

IN_THE_CLEAR = "PERDURE_TORTURE_CLEAR"


@contextmanager
def sealing(sealed: bool) -> Iterator[None]:
    """Have new files sealed, or in the clear, in this process and below."""
    before = os.environ.get(IN_THE_CLEAR)
    os.environ[IN_THE_CLEAR] = "" if sealed else "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[IN_THE_CLEAR]
        else:
            os.environ[IN_THE_CLEAR] = before


def seal_of(store: str | os.PathLike[str]) -> bool | None:
    """What to open a store with: a file brings its own keys unless none are wanted, a server is sealed if the
    environment names a vault for it.
    """
    clear = not os.environ.get(VAULT) if "://" in os.fspath(store) else os.environ.get(IN_THE_CLEAR)
    return False if clear else None
