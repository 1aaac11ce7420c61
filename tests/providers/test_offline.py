"""The built-in model behind the port: it streams, calls, follows its script, and fails like any other provider."""

import subprocess
import sys

import pytest

from perdure.core.errors import ProviderBusy, ProviderDown, ProviderRefused
from perdure.core.talk.folding import folded
from perdure.core.talk.offline import SCRIPT, Step
from perdure.core.talk.parts import Call, Ended
from perdure.core.talk.routes import OFFLINE
from perdure.ports.provider import Sending
from perdure.providers.making import made
from perdure.providers.offline import OfflineProvider
from tests.providers.asking import ask, broken, pieces_from, sending, tool


async def test_it_streams_what_it_says_whole() -> None:
    provider = made(OFFLINE.upstreams["offline"])
    pieces = await pieces_from(provider, sending("offline"))
    assert len(pieces) > 5
    assert isinstance(pieces[-1], Ended)
    assert folded(pieces) == (await provider.whole(sending("offline"))).answer


async def test_it_calls_a_tool_that_the_user_asks_for() -> None:
    asked = sending("offline", 'call look {"at": 1}', tools=(tool("look"),))
    answer = (await OfflineProvider().whole(asked)).answer
    assert [block.arguments for block in answer.blocks if isinstance(block, Call)] == [{"at": 1}]


async def test_it_fails_as_its_script_says() -> None:
    provider = OfflineProvider(steps=[Step(say="some words", fail="api_error", message="gone")])
    pieces, error = await broken(provider.stream(sending("offline")))
    assert pieces
    assert type(error) is ProviderDown
    assert error.told == "gone"
    with pytest.raises(ProviderBusy):
        await OfflineProvider(steps=[Step(fail="overloaded_error")]).whole(sending("offline"))


async def test_a_script_that_is_none_is_refused() -> None:
    with pytest.raises(ProviderRefused, match="script"):
        await OfflineProvider().whole(Sending(ask=ask("offline", metadata={SCRIPT: "nonsense"})))


def test_it_needs_no_client_for_http() -> None:
    code = (
        "import sys; from perdure.providers.making import made; from perdure.core.talk.routes import OFFLINE;"
        "import perdure.services.calling; made(OFFLINE.upstreams['offline']); print('httptools' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
