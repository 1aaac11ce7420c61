"""Making the session of a name, whoever comes first."""

from typing import Any

from perdure import AsyncPerdure, errors


async def made(db: AsyncPerdure, name: str, *, title: str | None = None, **row: Any) -> bool:
    """Make the session of a name; False if it is there. `Invalid` when the name is the id of a session that is there
    and cannot be opened from here: it is another tenant's, and stays so.
    """
    for _ in range(2):  # one that was erased just now is made at the second attempt
        try:
            await db.create(name if title is None else title, name=name, **row)
        except errors.AlreadyExists:
            pass
        else:
            return True
        try:
            await db.named(name).info()
        except errors.NotFound:
            continue
        return False
    raise errors.Invalid(
        f"{name!r} is the id of a session that belongs to another tenant; choose another id, or open the store for "
        "that tenant",
        name=name,
    )
