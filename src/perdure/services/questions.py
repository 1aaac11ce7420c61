"""A question to a model, before it is sent: by which name it goes, who may answer, and the most that it can take."""

import msgspec

from perdure.core.session import commands as do
from perdure.core.session.asking import ModelAsked
from perdure.core.talk.parts import Ask
from perdure.core.talk.routes import Route


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is about to be asked: the request's name, the models that may answer, and the most that it can take."""

    name: str
    ask: Ask
    route: Route
    money: int = 0
    tokens: int = 0
    estimate: int = 0

    @property
    def asked(self) -> ModelAsked:
        """The event before it is sent; whoever answers is told by the event after."""
        first = self.route.candidates[0]
        return ModelAsked(ask=self.name, provider=first.provider, model=first.model, tokens=self.estimate)

    @property
    def reserve(self) -> do.Reserve:
        """What is set aside for it."""
        return do.Reserve(reservation=self.name, amount=self.money, purpose="turn", tokens=self.tokens, rounds=1)
