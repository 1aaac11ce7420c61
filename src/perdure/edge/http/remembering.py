"""How a server remembers, as an operator writes it down."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure.core.memory.plans import ASKING, DEFAULT, PLANS


class Remembering(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory: by which embedder it is found, whether it is read, how much is at hand, on which plan spaces are, what
    consolidations may spend, and whether they come by themselves.
    """

    embedder: Annotated[
        str,
        Meta(min_length=1, description="what makes vectors of memories: `auto` what is installed, `none` words alone"),
    ] = "auto"
    key_env: Annotated[
        str | None,
        Meta(description="the variable of the environment that has our key for an embedder that is an address"),
    ] = None
    reader: Annotated[
        Literal["auto", "none"],
        Meta(
            description="whether consolidation reads memories beside each other; `auto`: where the embedder `minilm` "
            "is installed, be it used or not"
        ),
    ] = "auto"
    room: Annotated[
        Annotated[int, Meta(ge=1 << 20, le=1 << 50)] | None,
        Meta(
            description="bytes of RAM for the spaces at hand, of all tenants together; a quarter of the machine's "
            "memory, from 256 MiB to 4 GiB, if nobody says"
        ),
    ] = None
    plan: Annotated[str, Meta(description=f"the plan of spaces that an admin has put on none: {', '.join(PLANS)}")] = (
        DEFAULT
    )

    asking: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000,
            description="micro-dollars that one consolidation may spend on asking the cheap model about pairs of "
            "memories that are in doubt; 0 asks nothing",
        ),
    ] = ASKING
    consolidate: Annotated[
        bool,
        Meta(description="whether the server, and `perdure sweep`, consolidate spaces when their plan says it is time"),
    ] = True

    def __post_init__(self) -> None:
        if self.plan not in PLANS:
            raise ValueError(f"there is no plan {self.plan[:80]!r}; there are {', '.join(PLANS)}")
