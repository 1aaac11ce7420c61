"""Malformed input by the hundred thousand: `python -m barrage`, or `make barrage`.

A real server is started on a store of its own and shot at over loopback: broken HTTP, broken JSON, wrong types for
every field of every operation, ids, tokens, keys, cursors and headers that are none, and then all that schemathesis
can think of. Nothing may answer with 500, hang, crash, grow without end, or show anything of what is inside. Input
number n is a function of the seed and n: the seed is printed first and can be given again.
"""
