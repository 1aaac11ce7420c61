"""What a turn does with memory: it is recalled before the model is asked, and weighed after it has answered."""

from typing import TYPE_CHECKING

import msgspec

from perdure.core.errors import PerdureError
from perdure.core.session.event import Payload
from perdure.core.session.ids import SessionId
from perdure.core.session.memories import MemoriesCited
from perdure.core.session.origin import Recall
from perdure.core.session.state import State
from perdure.core.talk.parts import Answer, Said, Text
from perdure.core.talk.routes import Route
from perdure.core.talk.turning import TurnRequest
from perdure.core.talk.wire import texts
from perdure.services.desk import Desk

if TYPE_CHECKING:
    from perdure.services.remembering import Remembered


def wanted(state: State) -> Recall | None:
    """What a session is configured to be shown of memory, if anything."""
    asked = state.config.memory
    return asked if asked is not None and asked.enabled else None


async def reminded(
    desk: Desk,
    session: SessionId,
    state: State,
    route: Route,
    request: TurnRequest,
    said: Said | None,
    *,
    before: "Remembered | None" = None,
    metered: bool = True,
) -> "Remembered | None":
    """What the model is shown with the next request; None in a session without memory. What this turn was shown
    `before`, or as the log says, is not looked for again.
    """
    asked = wanted(state)
    if asked is None or desk.remembering is None:
        return None
    model, open = route.candidates[0].model, state.turns.open
    recalled = await desk.contexts.recalled(session, state, model)
    found = None if before is None else tuple(told for told, _ in before.found)
    if found is None and open is not None and recalled.found and recalled.turn == open.number:
        found = recalled.found
    query = texts(said.blocks) if said is not None else ""
    query = query or await desk.contexts.last_words(session, state, model)
    cites = asked.cite == "auto" and can_cite(route, request)
    shown = await desk.remembering().for_turn(
        state, asked, query, standing=recalled.standing, found=found, cites=cites, metered=metered
    )
    sought = shown.sought or (before is not None and before.sought)  # it was looked for, and not written down yet
    return msgspec.structs.replace(shown, sought=sought)


def can_cite(route: Route, request: TurnRequest) -> bool:
    """Whether whoever may answer can cite: all speak Anthropic's form, and the answer's own form is left to them."""
    mine = request.extra.get("anthropic")
    formed = isinstance(mine, dict) and any(mine.get(name) for name in ("output_format", "output_config"))
    return not formed and all(candidate.form == "anthropic" for candidate in route.candidates)


def uncited(answer: Answer, shown: "Remembered | None") -> tuple[Answer, list[Payload]]:
    """An answer as the log keeps it, and what is noted of its citations."""
    if shown is None:
        return answer, []
    from perdure.core.memory.provenance import cited_in, without_citations

    cited = cited_in(answer.blocks, shown.shown)
    return without_citations(answer), [MemoriesCited(cited=cited)] if cited else []


async def reflect(desk: Desk, shown: "Remembered | None", answer: Answer | None, noted: list[Payload]) -> None:
    """Count what was of use; what cannot be counted is let go."""
    if shown is None or answer is None or desk.remembering is None or not shown.shown:
        return
    text = "".join(block.text for block in answer.blocks if isinstance(block, Text))
    cited = [item for payload in noted if isinstance(payload, MemoriesCited) for item in payload.cited]
    try:
        await desk.remembering().heard(shown, text, cited)
    except PerdureError:
        return
