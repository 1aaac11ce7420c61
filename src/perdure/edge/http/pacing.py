"""How often someone may ask, and whether they ask as they always did: what a node remembers of requests."""

from perdure.core.access.anomaly import Profiles, Sight
from perdure.core.access.claims import Claims
from perdure.core.access.claims import Request as Seen
from perdure.core.access.rate import Rates, admit_all, per_second
from perdure.edge.http.settings import Settings
from perdure.ports.ambient import Ambient


class Pace:
    """The limits of one node. It is also what session tokens are held against, in their own order."""

    def __init__(self, settings: Settings, ambient: Ambient) -> None:
        self._ambient = ambient
        self._principals = Rates(per_second(settings.rate, settings.burst))
        self._sessions = Rates(per_second(settings.session_rate, settings.session_burst))
        self._strangers = Rates(per_second(settings.stranger_rate, settings.stranger_burst))
        self._profiles = Profiles()
        self.block = settings.anomaly == "block"
        self._watches = settings.anomaly != "off"

    def principal(self, principal: str) -> int:
        """Microseconds until a request of a principal is taken; 0 when it is taken now."""
        return self._principals.admit(principal, self._ambient.now())

    def session(self, session: str, principal: str, operation: str) -> int:
        """Microseconds until a principal's request of a kind in a session is taken; 0 when it is taken now. Nobody's
        requests make another one wait.
        """
        return self._sessions.admit((session, principal, operation), self._ambient.now())

    def stranger(self, address: str | None) -> int:
        """Microseconds until another failed attempt is looked at."""
        return self._strangers.admit(address, self._ambient.now())

    def unusual(self, principal: str, session: str, operation: str, size: int, address: str | None) -> bool:
        """Whether a request is unlike those of this principal in this session before."""
        if not self._watches:
            return False
        sight = Sight(self._ambient.now(), operation, size, address or "")
        return self._profiles.observe((session, principal), sight, block=self.block).flagged

    def admit(self, claims: Claims, request: Seen) -> int:
        """Both limits, for a session token: from both of them or from none."""
        of_session = (claims.session, claims.principal, request.operation)
        return admit_all(((self._principals, claims.principal), (self._sessions, of_session)), self._ambient.now())

    def suspicious(self, claims: Claims, request: Seen) -> bool:
        """As `unusual`, for a session token."""
        return self.unusual(claims.principal, claims.session, request.operation, request.size, request.address)
