"""Signed heads against the log: what it means that a log does, or does not, go on from where it was vouched for."""

from enum import Enum


class Stands(Enum):
    """How a log stands to its signed head."""

    WHOLE = "whole"
    """It has the signed digest at the signed version."""
    PRUNED = "pruned"
    """It goes on beyond, but what was signed has been pruned since: nothing tells for it or against it."""
    CUT = "cut"
    """It ends before."""
    OTHER = "other"
    """It goes on beyond, but is another log there."""


def stands(signed: tuple[int, bytes], reached: int, found: bytes | None, anchor: int = 0) -> Stands:
    """How a log that reaches a version, and has the digest `found` at the signed one, stands to its signed head
    (version and digest). `anchor` is the version it was pruned to: before it there is nothing to be found.
    """
    version, digest = signed
    if reached < version:
        return Stands.CUT
    if version < anchor:
        return Stands.PRUNED
    return Stands.WHOLE if found == digest else Stands.OTHER
