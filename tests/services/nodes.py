"""Nodes for tests of what a server keeps: several over one file, each with its own clock, and keys they share."""

from pathlib import Path
from typing import Any

from perdure.ambient import Ids
from perdure.core.access.claims import Claims, Request, Standing
from perdure.core.access.roles import Actor, Role
from perdure.core.session import commands as do
from perdure.core.session.ids import SessionId
from perdure.services.acting import Identity
from perdure.services.loading import SnapshotPolicy
from perdure.services.sessions import Sessions
from perdure.services.tokens import Settings, Tokens, standing
from perdure.stores.sqlite import SqliteStore
from perdure.testing import FixedAmbient

ADA = Actor(tenant="acme", principal="prn_ada", name="ada", roles=frozenset({Role.OWNER}), credential="key_1")
HOME = Request(address="10.0.0.1", user_agent="curl")
AWAY = Request(address="203.0.113.9", user_agent="curl")


class Secrets:
    """Keys per kind that a test may turn."""

    def __init__(self) -> None:
        self.keys: dict[str, list[tuple[str, bytes]]] = {}

    async def __call__(self, kind: str) -> list[tuple[str, bytes]]:
        return self.of(kind)

    def of(self, kind: str) -> list[tuple[str, bytes]]:
        return self.keys.setdefault(kind, [(f"{kind}-1", (kind * 32)[:32].encode())])

    def turn(self, kind: str, number: int) -> None:
        """A new key signs; the one before still counts, older ones do not."""
        self.keys[kind] = [(f"{kind}-{number}", bytes([number]) * 32), *self.of(kind)[:1]]


class Node:
    """One server over the file: its clock, its sessions, its tokens."""

    def __init__(self, path: Path, secrets: Secrets, name: str = "one", **given: Any) -> None:
        self.ambient = FixedAmbient(seed=name.encode())
        self.store = SqliteStore(str(path / "store.db"), self.ambient)
        self.secrets = secrets
        self.system = self.sessions("_perdure")
        self.acme = self.sessions("acme")
        self.audited: list[tuple[str, str | None]] = []
        self.holders: dict[str, Actor] = {ADA.principal: ADA}
        self.credentials = {ADA.credential}
        self.tokens = self.made(**given)

    def sessions(self, tenant: str) -> Sessions:
        who = Identity(tenant=tenant, actor="server")
        return Sessions(self.store, self.ambient, Ids(self.ambient).fresh, who, SnapshotPolicy())

    def made(self, settings: Settings | None = None, **given: Any) -> Tokens:
        return Tokens(
            self.system,
            self.secrets,
            standings=self.standing,
            holders=self.holder,
            audit=self.audit,
            settings=settings,
            **given,
        )

    async def standing(self, tenant: str, session: str) -> Standing | None:
        assert tenant == "acme"
        return await standing(self.acme, session)

    async def holder(self, tenant: str, principal: str, credential: str) -> Actor | None:
        return self.holders.get(principal) if credential in self.credentials else None

    async def audit(self, word: str, claims: Claims | None, request: Request, /, *, passed: bool = False) -> None:
        self.audited.append((word, None if claims is None else claims.principal))

    async def session(self, owner: str = "ada") -> SessionId:
        return (await self.acme.create(do.Create(owner=owner, activate=True))).session

    async def end(self, session: SessionId) -> None:
        await self.acme.handle(session, do.MoveTo(event="terminate"))
