"""The contract of the library over HTTP, where journeys were written for blocking callers: made at a server."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from tests.edge.client.conftest import OWNER
from tests.edge.client.served import Served
from tests.journeys import test_merging_again, test_recording, test_recording_together

APART = {
    "test_the_same_name_leads_to_the_same_session_and_an_id_to_itself": "the server chooses ids",
    "test_a_name_is_kept_as_the_title_or_beside_another_one": "as above, also by a name that is one",
}
LOCAL = {"place", "ambient", "tmp_path", "monkeypatch", "opens", "style"}


@pytest.fixture
def db(server: Served, tenant: str) -> Iterator[perdure.Perdure]:
    with perdure.connect(server.url, server.key_for(tenant, OWNER)) as connected:
        yield connected


def journeys() -> dict[str, Any]:
    """Those that ask for sessions and nothing else."""
    modules = (test_merging_again, test_recording, test_recording_together)
    found = {name: value for module in modules for name, value in vars(module).items() if name.startswith("test_")}
    return {
        name: journey
        for name, journey in found.items()
        if name not in APART and not LOCAL & set(inspect.signature(journey).parameters)
    }


globals().update(journeys())
