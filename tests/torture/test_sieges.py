"""A taste of what `make torture-postgres` does at length."""

import pytest

from torture.postgres import besiege


@pytest.mark.parametrize("sealed", [False, True])
def test_nothing_acknowledged_is_lost_when_the_server_crashes_and_clients_die(sealed: bool) -> None:
    siege = besiege(crashes=2, kills=3, seed=20261, minutes=3, sealed=sealed)
    assert siege.problems == []
    assert siege.crashes >= 2
    assert siege.kills >= 3
    assert siege.acked > 20
