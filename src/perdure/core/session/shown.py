"""What a caller gave, spelled for an error message: short, and without running the caller's code."""

LONGEST = 80


def shown(value: object) -> str:
    """Plain scalars as Python writes them, cut short; of anything else only the type's name."""
    kind = type(value)
    if kind is str or kind is bytes:
        return repr(value[:LONGEST])  # type: ignore[index]
    if kind is int:
        return repr(value) if -(1 << 64) < value < 1 << 64 else "an int of too many digits"  # type: ignore[operator]
    if value is None or kind is bool or kind is float:
        return repr(value)
    return kind.__name__


def told(error: BaseException) -> str:
    """What foreign code says went wrong, as a text that can be stored, whatever it raised."""
    try:
        words = str(error)
    except Exception:  # even that is foreign code
        words = "it does not say what"
    return f"{type(error).__name__}: {words}".encode("utf-8", "replace").decode()
