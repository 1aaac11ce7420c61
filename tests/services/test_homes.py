"""Work that is done on a library's own loop, whoever waits for it."""

from collections.abc import Coroutine
from typing import Any

import pytest

from perdure.services.homes import Home
from perdure.waiting import drive


def test_what_cannot_even_begin_is_told_to_who_waits() -> None:
    home = Home(lambda: None)

    def broken() -> Coroutine[Any, Any, None]:
        raise TypeError("it cannot be made")

    async def nothing() -> None:
        return

    with pytest.raises(TypeError, match="cannot be made"):
        drive(home.do(broken))
    assert drive(home.do(nothing)) is None
    drive(home.close(nothing))
