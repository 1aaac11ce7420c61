"""Texts that no store can hold are refused in plain words, with the place they were found at."""

from collections.abc import Iterator
from contextlib import contextmanager

from perdure import errors


@contextmanager
def sound(what: str) -> Iterator[None]:
    """While something is spelled: `Invalid` if a text in it has half a surrogate pair, which has no bytes."""
    try:
        yield
    except ValueError as error:
        if "surrogates not allowed" not in str(error):
            raise
        raise errors.Invalid(
            f"{what}: a text has a lone surrogate; clean it with .encode('utf-8', 'replace').decode()", what=what
        ) from error
