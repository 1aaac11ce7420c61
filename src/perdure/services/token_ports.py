"""What session tokens ask of others: how a session and a principal stand, who counts requests, who verifies proofs."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from perdure.core.access.claims import Claims, Request, Standing
from perdure.core.access.roles import Actor

Standings: TypeAlias = Callable[[str, str], Awaitable[Standing | None]]
"""Of a tenant's session; None when there is none."""
Holders: TypeAlias = Callable[[str, str, str], Awaitable[Actor | None]]
"""A tenant's principal as it stands now under a credential, by the ids of both; None when either counts no more."""


class Audit(Protocol):
    """Is told every word for the audit log."""

    def __call__(
        self, word: str, claims: Claims | None, request: Request, /, *, passed: bool = False
    ) -> Awaitable[None]:
        """Write down a word for a request: one that was refused, or one that `passed` and went on all the same."""
        ...


class Guard(Protocol):
    """What is asked last, because asking counts."""

    def admit(self, claims: Claims, request: Request) -> int:
        """Microseconds to wait; 0 when the request is taken now."""
        ...

    def suspicious(self, claims: Claims, request: Request) -> bool:
        """Whether the request is unlike those before it."""
        ...


class Prover(Protocol):
    """Verifies proofs of client keys."""

    def verify(self, proof: str, *, method: str, url: str, token: str | None = None) -> str:
        """The thumbprint of the key that made the proof, or `Unauthenticated`."""
        ...
