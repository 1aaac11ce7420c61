"""The PostgreSQL engine. `store` is the whole of it; the other modules are its parts."""

from perdure.stores.postgres.store import PostgresStore, look

__all__ = ["PostgresStore", "look"]
