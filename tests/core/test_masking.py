"""What must not reach the disk is masked in drafts; what events are made of stays."""

from typing import Any

import msgspec
import pytest

from perdure.core.masking import STRUCTURE, masked_draft
from perdure.core.session.event import Draft, Payload
from perdure.core.session.kinds import KINDS
from perdure.core.session.origin import Configured, Created
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.turns import Message, ToolAsked, ToolFinished, ToolStarted
from perdure.core.session.vars import VarsPatched

MAIL = "ana.silva@example.com"
SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.parametrize(
    "payload",
    [
        Message(role="user", content=f"write to {MAIL}"),
        Message(role="user", content=[{"type": "text", "text": MAIL}], metadata={"native": {"text": MAIL}}),
        ToolAsked(call="c", name="mail", arguments={"to": MAIL}),
        ToolFinished(call="c", result=[MAIL], error=None),
        ScratchpadWritten(content=f"- {MAIL}"),
        VarsPatched(patch=[["+", ["mail"], {"deep": [MAIL]}]]),
        Created(title=MAIL, metadata={"who": MAIL}),
        Configured(title=MAIL),
    ],
)
def test_no_address_is_left_in_what_will_be_written(payload: Payload) -> None:
    found = masked_draft(Draft(payload, agent="a", turn=3), "pii")
    assert MAIL.encode() not in msgspec.msgpack.encode(found.payload)
    assert (type(found.payload), found.agent, found.turn) == (type(payload), "a", 3)


def test_what_an_event_is_about_stays() -> None:
    asked = ToolAsked(call=MAIL, name=MAIL, arguments={"key": SECRET})
    found: Any = masked_draft(Draft(asked), "all").payload
    assert (found.call, found.name) == (MAIL, MAIL)
    assert SECRET not in str(found.arguments)


def test_the_paths_of_a_patch_stay_though_its_values_are_masked() -> None:
    patch = VarsPatched(patch=[["=", [MAIL, 0], MAIL], ["-", [MAIL]]])
    found: Any = masked_draft(Draft(patch), "pii").payload
    assert [change[1] for change in found.patch] == [[MAIL, 0], [MAIL]]
    assert MAIL not in found.patch[0][2]


def test_credentials_alone_are_masked_when_only_they_are_asked_for() -> None:
    found: Any = masked_draft(Draft(Message(role="user", content=f"{MAIL} {SECRET}")), "credentials").payload
    assert MAIL in found.content
    assert SECRET not in found.content


@pytest.mark.parametrize("payload", [Message(role="user", content="nothing to see"), ToolStarted(call=MAIL)])
def test_a_draft_without_anything_to_mask_is_given_back_itself(payload: Payload) -> None:
    draft = Draft(payload)
    assert masked_draft(draft, "all") is draft


def test_every_kind_with_content_survives_masking() -> None:
    for kind in KINDS.values():
        assert masked_draft(Draft(kind()), "all").payload == kind()
    assert all(name.isidentifier() for name in STRUCTURE)
