"""Signed heads and copies of whole stores: a backup is begun with every head signed, and whoever restores one goes back
on purpose, so that the heads are set to what the backup holds.
"""

from perdure.core.errors import KeyMissing, WorldError
from perdure.services.copies import Wiring
from perdure.services.heads import day
from perdure.services.manifests import Manifest


async def vouched_for(wiring: Wiring, source: str) -> tuple[str, ...]:
    """Sign the heads of a store that is about to be copied; remarks on what was not signed."""
    try:
        done = await wiring.sign(source, None, None)
    except KeyMissing:  # which proving the copy tells of
        return ()
    except WorldError as error:
        return (f"no heads were signed: {error.message}",)
    if not done.refused:
        return ()
    return (f"{len(done.refused)} sessions do not go on from their signed heads; see perdure sessions verify",)


async def set_back(wiring: Wiring, target: str, manifest: Manifest) -> tuple[str, ...]:
    """Take a store that was restored as it is; remarks on what became of its signed heads."""
    if not manifest.sealed:
        return ()
    why = "it was not brought to today's format yet"
    try:
        done = await wiring.sign(target, f"restored from a backup made on {day(manifest.made_at)}", None)
    except WorldError as error:
        why = error.message
    else:
        if done.sealed:
            return (f"signed heads of {done.signed} sessions were set to what the backup holds",) if done.signed else ()
    said = (
        f"its signed heads were left as they are, since {why}; until you say that it was restored (perdure keys sign "
        "--accept REASON), verifying takes it for an older copy"
    )
    return (said,)
