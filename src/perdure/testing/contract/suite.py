"""`StoreContract`: all claims in one class, to be inherited by the tests of each store.

::

    class TestMine(StoreContract):
        @pytest.fixture
        async def store(self, tmp_path):
            store = MyStore(tmp_path / "sessions")
            yield store
            await store.close()

        async def reopen(self, store):
            await store.close()
            return MyStore(store.path)

Invariant: a subclass inherits every claim. It may add tests of its own, but overriding one of these is refused,
and the only claims it can be excused from are those about durability, by declaring `durable = False`.
"""

from typing import Any, TypeVar

import pytest

from perdure.ports.store import Store
from perdure.testing.ambient import FixedAmbient
from perdure.testing.building import Builder
from perdure.testing.contract.appending import Appending
from perdure.testing.contract.beside import Checkpoints, Snapshots
from perdure.testing.contract.branching import Branching
from perdure.testing.contract.bringing import Bringing
from perdure.testing.contract.cold import Cold
from perdure.testing.contract.feed import Closing, Feeding, Watching
from perdure.testing.contract.finding import Filtering, Ordering
from perdure.testing.contract.keeping import Streaming
from perdure.testing.contract.keys import Keys
from perdure.testing.contract.lasting import Lasting
from perdure.testing.contract.money import Accounts
from perdure.testing.contract.reading import Reading
from perdure.testing.contract.removing import Erasing, Pruning, Rewriting
from perdure.testing.contract.searching import Searching
from perdure.testing.contract.timers import Timers


class Contract:
    """What the contracts share: where their claims take a store, time and commits from, and that none is muted."""

    durable = True

    @pytest.fixture
    def store(self) -> Store:
        """A fresh, empty store; each subclass brings its own and closes it."""
        raise NotImplementedError("give your subclass a fixture called store that makes a fresh one")

    @pytest.fixture
    def ambient(self) -> FixedAmbient:
        """Time and chance of the claims."""
        return FixedAmbient()

    @pytest.fixture
    def make(self, ambient: FixedAmbient) -> Builder:
        """Where the claims take their commits from."""
        return Builder(ambient)

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a subclass that overrides a claim, itself or through another of its bases."""
        super().__init_subclass__(**options)
        for contract in filter(CLAIMS.__contains__, cls.__mro__):
            for owner in cls.__mro__:
                muted = sorted(CLAIMS[contract] & vars(owner).keys()) if owner not in contract.__mro__ else []
                if muted:
                    raise TypeError(
                        f"{owner.__name__} overrides {', '.join(muted)}; a store keeps the whole contract, "
                        "so mend the store or add a test with another name"
                    )


CLAIMS: dict[type, frozenset[str]] = {}
"""The claims of each whole contract."""
C = TypeVar("C", bound=type[Contract])


def whole(contract: C) -> C:
    """Declare a class to be a whole contract: from now on none of its claims can be overridden."""
    CLAIMS[contract] = frozenset(name for name in dir(contract) if name.startswith("test_"))
    for claim in CLAIMS[contract]:
        pytest.mark.asyncio(getattr(contract, claim))
    return contract


@whole
class StoreContract(
    Appending,
    Keys,
    Accounts,
    Reading,
    Branching,
    Bringing,
    Erasing,
    Pruning,
    Rewriting,
    Timers,
    Cold,
    Streaming,
    Snapshots,
    Checkpoints,
    Filtering,
    Ordering,
    Searching,
    Feeding,
    Watching,
    Closing,
    Lasting,
    Contract,
):
    """What every store promises. Inherit it, give it a `store`, and let nothing fail."""
