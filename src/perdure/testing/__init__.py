"""For people who write their own store: the contract it must keep, a clock that stands still, and valid commits.

`StoreContract` and `BlobContract` need pytest and pytest-asyncio; nothing else here does, so they are loaded only when
they are named.
"""

from typing import TYPE_CHECKING, Any

from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, Made

if TYPE_CHECKING:
    from perdure.testing.contract import BlobContract, StoreContract

__all__ = ["BlobContract", "Builder", "FixedAmbient", "Made", "StoreContract"]


def __getattr__(name: str) -> Any:
    """Load the contracts, with pytest's detailed assertions when it is the first to."""
    if name not in ("BlobContract", "StoreContract"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sys

    import pytest

    if f"{__name__}.contract" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.contract")
    from perdure.testing import contract

    return getattr(contract, name)
