"""Operations in a transaction of their own, beside the writer: what takes long, or reads what comes but once."""

from collections.abc import Callable
from typing import Final, TypeVar

from perdure.core.errors import PerdureError, StoreBusy
from perdure.ports.ambient import Ambient
from perdure.stores.packing import Packing
from perdure.stores.postgres.connection import Connection, begin, say
from perdure.stores.postgres.noting import note, was_made
from perdure.stores.postgres.patience import outcome_unknown
from perdure.stores.postgres.readers import Readers
from perdure.stores.postgres.writer import Transaction

T = TypeVar("T")
_NUMBER: Final = 1


class Alone:
    """Runs operations on connections of the readers'."""

    def __init__(self, readers: Readers, packing: Packing, ambient: Ambient) -> None:
        self._readers = readers
        self._packing = packing
        self._ambient = ambient

    async def repeatedly(self, operation: Callable[[Transaction], T]) -> T:
        """What an operation comes to that may be done twice: one whose connection is lost is done again."""
        return await self._readers.run(lambda connection: self._transact(connection, operation))

    async def once(self, operation: Callable[[Transaction], None]) -> None:
        """Do what cannot be done twice. If the answer to its commit is lost, its note tells what became of it."""
        name, noted = self._ambient.random(16), False

        def noting(tx: Transaction) -> None:
            nonlocal noted
            operation(tx)
            note(tx, name, _NUMBER)
            noted = True

        try:
            await self._readers.run(lambda connection: self._transact(connection, noting), again=False)
        except StoreBusy as lost:
            if not noted or not await self._was_made(name, lost):
                raise

    async def _was_made(self, name: bytes, lost: StoreBusy) -> bool:
        try:
            return await self._readers.run(lambda connection: was_made(connection, name, _NUMBER))
        except PerdureError as unanswered:
            raise outcome_unknown(unanswered.message, lost.fields["store"]) from unanswered

    def _transact(self, connection: Connection, operation: Callable[[Transaction], T]) -> T:
        begin(connection)
        try:
            outcome = operation(Transaction(connection, self._packing))
            say(connection, "COMMIT")
        except BaseException:
            if not connection.closed and not connection.broken:
                say(connection, "ROLLBACK")
            raise
        return outcome
