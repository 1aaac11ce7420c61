"""The only place that wires things: which store, which keys, which ambient, which services."""

from perdure.compose.copies import copying, engine_of
from perdure.compose.opening import StoreGiven, check_keys, keys_of, open_cold, open_store, seal_of
from perdure.compose.wiring import Opened, Services, compose, embedded

__all__ = [
    "Opened",
    "Services",
    "StoreGiven",
    "check_keys",
    "compose",
    "copying",
    "embedded",
    "engine_of",
    "keys_of",
    "open_cold",
    "open_store",
    "seal_of",
]
