"""The types and calls of the TypeScript client, written from the description: `python -m perdure.edge.http.typescript`.

The same description gives the same text, byte for byte, so that a test can tell when the client is behind.
"""

import re
import sys
from typing import Any, Final

Document = dict[str, Any]
HEAD: Final = """// Generated from the OpenAPI document of the server by `make typescript`; changes made here are lost.

"""
_NAME: Final = re.compile(r"^[A-Za-z_$][\w$]*$")
_WIDTH: Final = 110
_STREAM: Final = "text/event-stream"
_CALL: Final = """/** How a call travels: the client implements it once. */
export abstract class Operations {
  protected abstract call<T>(
    operation: Operation,
    path: string,
    query: Query,
    body: unknown,
    options: Options,
  ): Promise<T>;

"""
_SHAPES: Final = """export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

/** What may go along with any call. */
export interface Options {
  /** A word of your own under which a write is done once; where none is given, one is made. */
  key?: string;
  /** The version that was seen: the write is done only if the session still has it. */
  ifMatch?: number;
  /** Why an admin breaks the glass. */
  override?: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** What the client has to know of an operation to make its call. */
export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly keyed: boolean;
  readonly takes: string | null;
  readonly gives: "json" | "text" | "bytes" | "nothing";
}

"""


def written(document: Document) -> str:
    """The module with all types and one method per operation."""
    schemas = document["components"]["schemas"]
    types = [_declared(name, schema) for name, schema in schemas.items()]
    rows = [
        (path, method.upper(), found)
        for path, methods in document["paths"].items()
        for method, found in methods.items()
        if _status(found) is not None  # a socket is no call, nor is a stream
    ]
    methods = [_method(path, method, found) for path, method, found in rows]
    return HEAD + "\n".join(types) + "\n" + _SHAPES + _CALL + "\n".join(methods) + "}\n"


# ── types ──


def _declared(name: str, schema: Document) -> str:
    told = _told(schema.get("description"), "")
    if schema.get("type") == "object" and "properties" in schema:
        return f"{told}export interface {name} {_object(schema, '')}\n"
    return f"{told}export type {name} = {_type(schema, '')};\n"


def _told(text: str | None, indent: str) -> str:
    if not text:
        return ""
    words, lines = text.replace("*/", "* /").split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}\n" for line in lines) + f"{indent} */\n"


def _object(schema: Document, indent: str) -> str:
    required = schema.get("required", [])
    inner = indent + "  "
    lines = [
        f"{inner}{_key(name)}{'' if name in required else '?'}: {_type(field, inner)};\n"
        for name, field in schema["properties"].items()
    ]
    return "{\n" + "".join(lines) + indent + "}"


def _key(name: str) -> str:
    return name if _NAME.match(name) else _literal(name)


def _type(schema: Document, indent: str) -> str:
    """The type a schema stands for; what may be anything is unknown."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        return " | ".join(_literal(value) for value in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(_type(choice, indent) for choice in choices))
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _object(schema, indent)
        case "object":
            inner = schema.get("additionalProperties")
            return f"Record<string, {_type(inner, indent) if isinstance(inner, dict) else 'unknown'}>"
        case "array":
            items = _type(schema.get("items", {}), indent)
            return f"({items})[]" if " | " in items else f"{items}[]"
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as plain:
            return str(plain)
        case _:
            return "unknown"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return {True: "true", False: "false", None: "null"}[value] if value is None or type(value) is bool else str(value)


# ── calls ──


def _method(path: str, method: str, found: Document) -> str:
    name = _camel(found["operationId"])
    pieces = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
    arguments = [f"{_camel(piece)}: string" for piece in pieces]
    body, takes, optional = _body(found)
    query, needed = _query(found)
    if body is not None and not optional:
        arguments.append(f"body: {body}")
    if query is not None and needed:
        arguments.append(f"query: {query}")
    if body is not None and optional:
        arguments.append(f"body?: {body}")
    if query is not None and not needed:
        arguments.append(f"query: {query} = {{}}")
    arguments.append("options: Options = {}")
    answer, gives = _answer(found)
    keyed = any(one["name"] == "Idempotency-Key" for one in found.get("parameters", ()))
    facts = {"name": found["operationId"], "method": method, "keyed": keyed, "takes": takes, "gives": gives}
    fact = ", ".join(f"{word}: {_literal(value)}" for word, value in facts.items())
    spelled = "/".join(
        f"${{encodeURIComponent({_camel(p[1:-1])})}}" if p.startswith("{") else p for p in path.split("/")
    )
    place = f"`{spelled}`" if pieces else _literal(path)
    asked = "{ ...query }" if query is not None else "{}"
    sent = "body" if body is not None else "undefined"
    return (
        _told(found["summary"], "  ")
        + f"  {name}(\n"
        + "".join(f"    {argument},\n" for argument in arguments)
        + f"  ): Promise<{answer}> {{\n"
        + f"    const operation: Operation = {{ {fact} }};\n"
        + f"    return this.call(operation, {place}, {asked}, {sent}, options);\n"
        + "  }\n"
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _body(found: Document) -> tuple[str | None, str | None, bool]:
    """The type of the body, the media type it is sent as, and whether it may be left out."""
    told = found.get("requestBody")
    if told is None:
        return None, None, True
    media, content = next(iter(told["content"].items()))
    kind = "Uint8Array | string" if content["schema"].get("type") == "string" else _type(content["schema"], "    ")
    return kind, media, not told["required"]


def _query(found: Document) -> tuple[str | None, bool]:
    asked = [one for one in found.get("parameters", ()) if one["in"] == "query"]
    if not asked:
        return None, False
    needed = any(one.get("required") for one in asked)
    fields = [f"{_key(one['name'])}{'' if one.get('required') else '?'}: {_type(one['schema'], '')}" for one in asked]
    return "{ " + "; ".join(fields) + " }", needed


def _status(found: Document) -> str | None:
    """The status of a good answer; None where none ever ends."""
    good = (status for status in found["responses"] if status.startswith("2"))
    return next((status for status in good if list(found["responses"][status].get("content", ())) != [_STREAM]), None)


def _answer(found: Document) -> tuple[str, str]:
    """The type of the answer, and how it is read."""
    content = found["responses"][_status(found)].get("content")
    if content is None:
        return "void", "nothing"
    media, inner = next(iter(content.items()))
    if media == "application/json":
        return _type(inner["schema"], "  "), "json"
    return ("Uint8Array", "bytes") if inner["schema"].get("format") == "binary" else ("string", "text")


def main() -> None:
    """Write the module to the standard output."""
    from perdure import __version__
    from perdure.edge.http.building import endpoints
    from perdure.edge.http.openapi import describe

    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdout.write(written(describe(endpoints(), __version__)))


if __name__ == "__main__":
    main()
