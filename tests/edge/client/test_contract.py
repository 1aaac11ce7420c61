"""The contract of the library over HTTP: the journeys of `tests/journeys`, made at a server.

Every journey is taken that asks for nothing but sessions. Those that look into a store's files, turn its clock, or need
functions of the application in the store's process have no place here; the few others stand in `APART`, with why.
"""

import inspect
from types import ModuleType
from typing import Any

from tests.journeys import (
    test_conversations,
    test_declared_vars,
    test_library,
    test_taking_away,
    test_waking,
)

MODULES = (
    test_library,
    test_conversations,
    test_declared_vars,
    test_taking_away,
    test_waking,
)
LOCAL = {"place", "ambient", "tmp_path", "monkeypatch"}
HOOKS = "hooks, compensations and retrievers run in the process that has the store open"
APART: dict[str, str] = {
    "test_other_calls_take_keys_too": HOOKS,
    "test_branching_with_the_same_key_gives_the_same_branch_wherever_the_parent_stands": HOOKS,
    "test_hooks_see_every_move_before_and_after": HOOKS,
    "test_a_hook_that_raises_before_a_move_stops_it": HOOKS,
    "test_hooks_are_not_asked_about_moves_that_would_be_refused": HOOKS,
    "test_a_hook_before_branching_may_refuse": HOOKS,
    "test_terminating_compensates_in_reverse_and_notes_each": HOOKS,
    "test_completing_compensates_nothing": HOOKS,
    "test_compensations_a_crash_left_undone_are_run_later_and_only_those": HOOKS,
    "test_a_turn_whose_writer_died_is_recovered_with_its_tools_to_retry": "a store is recovered where it is",
    "test_an_id_can_be_chosen_once": "the server chooses ids: one that is taken elsewhere must not be told of",
    "test_a_branch_may_go_by_a_name": "as above; `test_session` has the same by a name",
    "test_a_key_in_flight_is_refused_and_a_finished_one_is_repeated": "what is in flight cannot be timed from here",
    "test_a_key_belongs_to_its_session_and_its_actor": "another actor may not write to a session that is not theirs",
    "test_a_handle_on_another_tenants_id_can_do_nothing": "makes handles from the inside of an open store",
}


def journeys(module: ModuleType) -> dict[str, Any]:
    """The journeys of a module that can be made at a server."""
    found = {name: value for name, value in vars(module).items() if name.startswith("test_") and callable(value)}
    return {
        name: journey
        for name, journey in found.items()
        if name not in APART and not LOCAL & set(inspect.signature(journey).parameters)
    }


for _module in MODULES:
    globals().update(journeys(_module))
