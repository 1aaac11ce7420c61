"""For people who write their own store: the contract it must keep, a clock that stands still, and valid commits.

`StoreContract` needs pytest and pytest-asyncio; nothing else here does, so it is loaded only when it is named.
"""

from typing import TYPE_CHECKING, Any

from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder, Made

if TYPE_CHECKING:
    from perdure.testing.contract import StoreContract

__all__ = ["Builder", "FixedAmbient", "Made", "StoreContract"]


def __getattr__(name: str) -> Any:
    """Load the contract, with pytest's detailed assertions when it is the first to."""
    if name != "StoreContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sys

    import pytest

    if f"{__name__}.contract" not in sys.modules:
        pytest.register_assert_rewrite(f"{__name__}.contract")
    from perdure.testing.contract import StoreContract

    return StoreContract
