"""The events callers append, by name. `perdure.core.session.kinds` has the whole closed union."""

from perdure.core.session.agents import AgentJoined, AgentPaused, AgentResumed, Delegation, RoomMessage, Round
from perdure.core.session.conversation import Item, Spoken, as_given, items_of, native
from perdure.core.session.event import Draft, Event, Payload
from perdure.core.session.lifecycle import CompensationRegistered, ExitCriterion
from perdure.core.session.links import Linked, Relation
from perdure.core.session.quality import Repair, Retrieval, VerificationResult
from perdure.core.session.recording import Noted
from perdure.core.session.redaction import Redacted
from perdure.core.session.scratchpad import ScratchpadWritten
from perdure.core.session.steering import Feedback, FollowedUp, OutcomeKnown, Steered
from perdure.core.session.tools import ToolBound
from perdure.core.session.turns import (
    Compacted,
    Message,
    Retracted,
    ToolAsked,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)

__all__ = [
    "AgentJoined",
    "AgentPaused",
    "AgentResumed",
    "Compacted",
    "CompensationRegistered",
    "Delegation",
    "Draft",
    "Event",
    "ExitCriterion",
    "Feedback",
    "FollowedUp",
    "Item",
    "Linked",
    "Message",
    "Noted",
    "OutcomeKnown",
    "Payload",
    "Redacted",
    "Relation",
    "Repair",
    "Retracted",
    "Retrieval",
    "RoomMessage",
    "Round",
    "ScratchpadWritten",
    "Spoken",
    "Steered",
    "ToolAsked",
    "ToolBound",
    "ToolFinished",
    "ToolStarted",
    "TurnFinished",
    "TurnStarted",
    "VerificationResult",
    "as_given",
    "items_of",
    "native",
]
