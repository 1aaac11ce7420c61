"""How an import writes transcripts of Claude's: through its session store, with their times beside what was said, and
under names that may begin with something.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import perdure
from perdure.adapters.claude_agent import PROJECT, SESSION, SUBPATH, PerdureSessionStore, Place
from perdure.adapters.parts.claude_entries import entry_of, uuid_of
from perdure.events import Message, ToolAsked, ToolFinished
from perdure.importers.dating import dated, moment


class Aside(Place, frozen=True, kw_only=True):
    """The place of a transcript under a name that begins with something. Claude knows it by its session's id; a nested
    agent's it does not know.
    """

    prefix: str
    id: str

    @property
    def name(self) -> str:
        """The name of its session."""
        return self.prefix + super().name

    @property
    def marks(self) -> dict[str, Any]:
        """How it is found again."""
        return {} if self.subpath else {PROJECT: self.project, SESSION: self.id, SUBPATH: ""}


class Bringing(PerdureSessionStore):
    """The session store of an import."""

    def __init__(self, db: perdure.Perdure | perdure.AsyncPerdure, prefix: str) -> None:
        super().__init__(db, shared=False)
        self.prefix = prefix
        self._times: dict[str, str | None] = {}

    def placed(self, place: Place) -> Place:
        """Where a transcript goes."""
        if not self.prefix or isinstance(place, Aside):
            return place
        id = self._db.named(self.prefix + place.name).id
        return Aside(
            project=place.project, session=place.session, subpath=place.subpath, prefix=self.prefix, id=str(id)
        )

    async def bring(
        self, key: Any, entries: Sequence[Mapping[str, Any]], marks: Mapping[str, Any] | None = None
    ) -> int:
        """As the store does, with the times of the entries."""
        self._times = {str(entry.get("uuid")): moment(entry.get("timestamp")) for entry in entries}
        return await super().bring(key, entries, marks)

    async def _write(self, place: Place, stretch: list[Any], marks: dict[str, Any]) -> int:
        return await super()._write(self.placed(place), stretch, marks)

    async def _find(self, place: Place) -> Any:
        return await super()._find(self.placed(place))

    async def _ready(self, place: Place) -> Any:
        session, seen, version = await super()._ready(place)
        return _Dating(session, self._times), seen, version


class _Dating:
    """A session's handle that notes when something was said that is recorded now."""

    def __init__(self, session: perdure.AsyncSession, times: Mapping[str, str | None]) -> None:
        self._session = session
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def record(self, payloads: Sequence[Any], **more: Any) -> int:
        """As the session does."""
        found: list[Any] = []
        when: str | None = None
        for payload in payloads:
            if isinstance(payload, Message | ToolAsked | ToolFinished):
                mark = cast("dict[str, Any]", payload.metadata["native"])
                when = self._when(mark["item"]) if "item" in mark else when
            found += dated([payload], when)
        return await self._session.record(found, **more)

    def _when(self, form: Any) -> str | None:
        """When an entry was written, in whatever form it is kept."""
        entry = entry_of(form)
        return moment(entry.get("timestamp")) if type(entry) is dict else self._times.get(str(uuid_of(form)))
