"""Blocks as the log keeps them, and back: a text for plain words, else a list of documents that each have a `type`.

The spelling is the one that the log's other writers use: text, tool_use, tool_result, thinking, image and document with
a source; and `foreign` for what only one provider understands. A source may be the `Ref` to a blob, which is then media
that lies at the blob's URI until somebody is asked. Parts as OpenAI's clients spell them are understood, too. What has
another spelling is read from the log as its JSON, so that nothing is left out unseen; when a caller says it, it is
refused. `cached` is a wish for one request and is never kept. An empty text is no block.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from typing import Any, Final

from msgspec.json import Encoder

from perdure.core.errors import Invalid
from perdure.core.session.refs import SCHEME, blob_of, blob_ref
from perdure.core.session.shown import shown
from perdure.core.session.values import Ref
from perdure.core.talk.parts import Block, Call, Foreign, Media, Result, Text, Thought
from perdure.core.talk.wire import rest_in

MEDIA_TOKENS: Final = 1600
"""What an image or a document is taken to cost; its bytes say little about that."""
_JSON: Final = Encoder(order="deterministic")


def json_text(value: Any) -> str:
    """A value of the log as JSON in one line, keys sorted."""
    return _JSON.encode(value).decode()


def stored(blocks: Iterable[Block]) -> Any:
    """Blocks as the content of a message: a text when that is all there is, None when there is nothing."""
    found = [block for block in blocks if not _is_empty(block)]
    if not found:
        return None
    if len(found) == 1 and isinstance(found[0], Text):
        return found[0].text
    return [_document(block) for block in found]


def documents_of(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Blocks as documents, however few."""
    return [_document(block) for block in blocks if not _is_empty(block)]


def _is_empty(block: Block) -> bool:
    return isinstance(block, Text) and not block.text


def _document(block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Media():
            return _source(block)
        case Call():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": arguments_of(block)}
        case Result():
            found = {"type": "tool_result", "tool_use_id": block.call, "content": stored(block.content)}
            return found | ({"is_error": True} if block.failed else {})
        case Thought():
            found = {"type": "thinking", "thinking": block.text}
            return found | ({"signature": block.seal} if block.seal else {})
        case Foreign():
            return {"type": "foreign", "provider": block.provider, "block": block.block}


def _source(media: Media) -> dict[str, Any]:
    blob = blob_at(media)
    source: Any = {"type": "base64" if media.data else "url", "media_type": media.media_type}
    source |= {"data": b2a_base64(media.data, newline=False).decode()} if media.data else {"url": media.url}
    source = source if blob is None else blob
    kind = "image" if media.media_type.startswith("image/") else "document"
    return {"type": kind, "source": source} | ({"title": media.name} if media.name else {})


def blob_at(media: Media) -> Ref | None:
    """The blob that holds the media, if one does: only a Ref in the log keeps it."""
    if media.data or not media.url.startswith(SCHEME):
        return None
    try:
        return blob_ref(blob_of(media.url))
    except Invalid:
        return None


def arguments_of(call: Call) -> Any:
    """What a call is asked with: a document, or the text that is none."""
    return call.raw or call.arguments


def call_of(id: str, name: str, arguments: Any) -> Call:
    """A call from what the log says it was asked with."""
    if arguments is None or type(arguments) is dict:
        return Call(id=id, name=name, arguments=arguments or {})
    return Call(id=id, name=name, raw=arguments if type(arguments) is str else json_text(arguments))


def blocks_of(content: Any) -> tuple[Block, ...]:
    """The blocks of a message's content."""
    if content is None:
        return ()
    found = [block for item in _items(content) for block in _blocks(item) or (Text(text=json_text(item)),)]
    return tuple(block for block in found if not _is_empty(block))


def given_blocks(content: Any) -> tuple[Block, ...]:
    """The blocks of what a caller says; `Invalid` names the kinds there are when it is none of them."""
    found: list[Block] = []
    for item in () if content is None else _items(content):
        blocks = _blocks(item)
        if blocks is None:
            kinds = ", ".join(KINDS)
            told = f"content is a text, or a list of texts and blocks of these types: {kinds}; {shown(item)} is neither"
            raise Invalid(told, kinds=kinds)
        found += blocks
    return tuple(block for block in found if not _is_empty(block))


def _items(content: Any) -> list[Any] | tuple[Any, ...]:
    return content if isinstance(content, list | tuple) else (content,)


def result_blocks(result: Any) -> tuple[Text | Media | Foreign, ...]:
    """The blocks of a tool's result: a text as it is, a list of blocks, and anything else as data in JSON."""
    if result is None or type(result) is str:
        return (Text(text=result),) if result else ()
    if not result or not isinstance(result, list | tuple) or not all(map(_is_shown, result)):
        return (Text(text=json_text(result)),)
    return tuple(block for block in blocks_of(result) if isinstance(block, Text | Media | Foreign))


def _is_shown(item: Any) -> bool:
    """Whether it is spelled as a block that a result may hold."""
    return type(item) is dict and type(item.get("type")) is str and item["type"] in _SHOWN


def _blocks(item: Any) -> tuple[Block, ...] | None:
    """An item as a block, with its rest where it has one; None for what has another spelling."""
    if type(item) is str:
        return (Text(text=item),)
    kind = item.get("type") if type(item) is dict else None
    if type(kind) is not str:
        return None
    if kind in _BORROWED:
        return _borrowed(item, kind)
    read = _READ.get(kind)
    found = read(item) if read is not None else None
    return None if found is None else (found,)


def _borrowed(item: dict[str, Any], kind: str) -> tuple[Block, ...] | None:
    """A part as OpenAI's clients spell it; of a picture also its URL alone."""
    if kind == "image_url" and type(item.get(kind)) is str:
        item = item | {kind: {"url": item[kind]}}
    try:
        found: tuple[Block, ...] = _BORROWED[kind](item)
    except Invalid:
        return None
    return None if isinstance(found[0], Foreign) else found


def _read_text(item: dict[str, Any]) -> Block | None:
    text = item.get("text")
    return Text(text=text) if type(text) is str else None


def _read_call(item: dict[str, Any]) -> Block | None:
    match item:
        case {"id": str(id), "name": str(name)}:
            return call_of(id, name, item.get("input"))
        case _:
            return None


def _read_result(item: dict[str, Any]) -> Block | None:
    match item:
        case {"tool_use_id": str(call)}:
            return Result(call=call, content=result_blocks(item.get("content")), failed=item.get("is_error") is True)
        case _:
            return None


def _read_thought(item: dict[str, Any]) -> Block | None:
    match item:
        case {"thinking": str(text)}:
            seal = item.get("signature")
            return Thought(text=text, seal=seal if type(seal) is str else "")
        case _:
            return None


def _read_media(item: dict[str, Any]) -> Block | None:
    title = item.get("title")
    name = title if type(title) is str else ""
    source = item.get("source")
    if (blob := _pointed(source)) is not None:
        return Media(media_type=f"{item['type']}/*", url=blob, name=name)
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            try:
                return Media(media_type=kind, data=a2b_base64(data.encode("ascii")), name=name)
            except (Base64Error, UnicodeEncodeError):
                return None
        case {"type": "text", "media_type": str(kind), "data": str(data)}:
            return Media(media_type=kind, data=data.encode("utf-8", "surrogatepass"), name=name)
        case {"type": "url", "url": str(url), **rest}:
            told = rest.get("media_type")
            return Media(media_type=told if isinstance(told, str) else f"{item['type']}/*", url=url, name=name)
        case _:
            return None


def _pointed(source: Any) -> str | None:
    """The URI of the blob that a source points to: a Ref, or how JSON spells one."""
    match source:
        case Ref(uri=uri, sha256=told):
            pass
        case {"$ref": {"uri": str(uri), "sha256": str(told)}} | {"uri": str(uri), "sha256": str(told)}:
            pass
        case {"uri": str(uri)}:
            told = ""
        case _:
            return None
    try:
        digest = blob_of(uri)
    except Invalid:
        return None
    same = ("", digest, digest.hex(), b2a_base64(digest, newline=False).decode())
    return uri if told in same else None


def _read_foreign(item: dict[str, Any]) -> Block | None:
    match item:
        case {"provider": str(provider), "block": dict(block)}:
            return Foreign(provider=provider, block=block)
        case _:
            return None


_READ: Final = {
    "text": _read_text,
    "image": _read_media,
    "document": _read_media,
    "tool_use": _read_call,
    "tool_result": _read_result,
    "thinking": _read_thought,
    "foreign": _read_foreign,
}


def _read_chat(item: dict[str, Any]) -> Any:
    from perdure.core.talk import chat_parts  # seldom needed, and heavy

    return chat_parts.part_from(item, "content")


def _read_responses(item: dict[str, Any]) -> Any:
    from perdure.core.talk import responses_items

    return responses_items.part_from(item, "content", "input_text")


_BORROWED: Final[dict[str, Any]] = {
    **dict.fromkeys(("image_url", "input_audio", "file"), _read_chat),
    **dict.fromkeys(("input_text", "input_image", "input_file"), _read_responses),
}
KINDS: Final = ("text", "image", "document", "thinking", "foreign", *_BORROWED)
"""The types of blocks that a caller may say."""
_SHOWN: Final = frozenset({"text", "image", "document", "foreign"})


def words_of(block: Block) -> str:
    """The words of a block that a model reads, for counting tokens; of media and of a rest there are none."""
    match block:
        case Text():
            return block.text
        case Media():
            return ""
        case Call():
            return f"{block.name} {block.raw or json_text(block.arguments)}"
        case Result():
            return "\n".join(words_of(inner) for inner in block.content if rest_in(inner) is None)
        case Thought():
            return block.text or block.seal
        case Foreign():
            return json_text(block.block) if rest_in(block) is None else ""


def without_rests(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """The blocks that say something to people."""
    return tuple(block for block in blocks if rest_in(block) is None)


def media_in(block: Block) -> int:
    """How many images or documents a block holds."""
    if isinstance(block, Result):
        return sum(isinstance(inner, Media) for inner in block.content)
    return int(isinstance(block, Media))
