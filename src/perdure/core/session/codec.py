"""The one codec: canonical MessagePack on disk and under every hash, JSON on the wire and in exports.

The rules (format 1)
--------------------
A value (see `values`) has exactly one encoding, and `decode` accepts no other.

==============  =============================================================================================
value           MessagePack
==============  =============================================================================================
None, bool      nil, false, true
int             the shortest form: fixint, uint 8–64 if ≥ 0, int 8–64 if negative; −2^63 … 2^64−1
float           float 64, always (also 1.0); NaN and infinities are refused; −0.0 keeps its sign
str             the shortest str form, UTF-8; lone surrogates are refused
bytes           the shortest bin form
datetime        timestamp, extension −1, the shortest of its 4, 8 and 12 byte forms; whole microseconds, UTC
timedelta       extension 1: int64 microseconds, big-endian, 8 bytes
set             extension 2: the encoding of an array of the elements, ordered by their encoded bytes, no two equal
Ref             extension 3: the 32 bytes of the SHA-256, then the URI in UTF-8
list, tuple     the shortest array form
dict            the shortest map form; keys are str, no two equal, ordered by their UTF-8 bytes
==============  =============================================================================================

A Struct is the map (or array) it declares, by the same rules: its keys are sorted with the rest, and a field that
equals its default is left out if the Struct says `omit_defaults`.

JSON carries the same values. What JSON lacks is an object with one marker key:
`{"$bytes": base64}`, `{"$time": "2024-01-31T12:00:00.000001Z"}`, `{"$duration": microseconds}`, `{"$set": […]}`,
`{"$ref": {"sha256": hex, "uri": …}}`. A key of the user's that begins with `$` is written with one more `$`, so user
data can never be taken for a marker; a key with a single `$` that is no marker is refused. Keys are sorted by their
UTF-8 bytes as written, set elements by their MessagePack encoding; a float always has a point or an exponent.

Limits: 16 MiB, 64 levels, 1,000,000 items, keys of 1,024 bytes. Every failure is `Invalid` or below it.
Nothing stored can name a class, import code or choose a decoder.
"""

from perdure.core.session.jsontext import from_json, to_json
from perdure.core.session.packing import decode, encode
from perdure.core.session.structs import decoder, encode_struct

__all__ = ["decode", "decoder", "encode", "encode_struct", "from_json", "to_json"]
