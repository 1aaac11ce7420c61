"""A provider's server for each test."""

from collections.abc import AsyncIterator

import pytest

from tests.providers.asking import KEY
from upstream.server import Server, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server that wants our key."""
    async with serving(key=KEY) as running:
        yield running
