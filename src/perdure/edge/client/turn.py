"""A turn at a server as a block."""

from typing import Any

from perdure.ambient import Ids
from perdure.core.session.event import Draft
from perdure.core.session.ids import SessionId, text
from perdure.edge.client.documents import draft_of
from perdure.edge.client.transport import Transport
from perdure.edge.turn import AsyncTurn


class RemoteTurn(AsyncTurn):
    """An open turn. Every call is one durable append at the server."""

    def __init__(
        self, transport: Transport, session: SessionId, words: Any, model: str | None, agent: str | None
    ) -> None:
        self._transport = transport
        self._session = session
        self._text = words
        self._model = model
        self._agent = agent
        self._tokens = (0, 0)
        self._over = False
        self.number = 0

    async def _write(self, drafts: tuple[Draft, ...]) -> tuple[int, int | None]:
        path = f"/v1/sessions/{self._session}/events"
        found = await self._transport.send("POST", path, {"events": [draft_of(item) for item in drafts]}, keyed=True)
        version, number = found["version"], found["turn"]
        if number is None:  # the answer that told it was lost, and this one only says that it was done
            log = await self._transport.get(path, {"after": version - 1, "upto": version})
            number = log["items"][0].get("turn") if log["items"] else None
        return version, number

    async def _recover(self, reason: str) -> None:
        await self._transport.send("POST", f"/v1/sessions/{self._session}/recover", {"reason": reason})

    def _fresh(self) -> str:
        ambient = self._transport.ambient
        return text(Ids(ambient).fresh(ambient.now()))
