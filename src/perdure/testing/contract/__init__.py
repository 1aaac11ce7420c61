"""The contract of every store, claim by claim, one module a topic. Needs pytest and pytest-asyncio."""

from perdure.testing.contract.blobs import BlobContract
from perdure.testing.contract.suite import StoreContract

__all__ = ["BlobContract", "StoreContract"]
