"""Which names an object may have: ones that mean the same in a folder, in a bucket and in a URL."""

import re
from typing import Final

from perdure.core.errors import BundleMissing, Invalid

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_LONGEST: Final = 512


def checked(name: str) -> str:
    """The name, if no object's could lead out of its folder; else `Invalid`."""
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise Invalid(f"{name!r:.80} is not a name in cold storage", name=name)
    return name


def missing(name: str, place: str) -> BundleMissing:
    """What to say of an object that is not there."""
    return BundleMissing(
        f"{name} is not in cold storage at {place}; bring it back from a copy, or open the store with the cold storage "
        "it was archived to",
        name=name,
        place=place,
    )
