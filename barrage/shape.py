"""A check of ours for schemathesis: what fits the description is never refused for its shape.

A value can be of the right shape and still be wrong (a cursor of another query, a key that was used before), so 422 by
itself says nothing. A refusal that names the place in the body or query does: there, server and description disagree.
"""

import schemathesis
from schemathesis.generation import GenerationMode


@schemathesis.check
def a_fitting_request_is_not_refused_for_its_shape(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """Compare what the server says of a request's shape with what the description says."""
    if response.status_code != 422 or case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    found = response.json()
    if "at" in found.get("fields", {}):
        raise AssertionError(f"fits the description, and is refused for its shape: {found['detail']}")


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: schemathesis.SerializationContext, value: object) -> bytes:
    """Lines of JSON are sent as they are."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
