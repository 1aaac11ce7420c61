"""Content that is nothing but text, which is a plain text to everybody. Pure: nothing here reads or writes."""

from typing import Any


def one_text(content: Any) -> Any:
    """The text, if content is one block of text and nothing else; else the content. So content is written."""
    match content:
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
        case _:
            return content


def all_text(content: Any) -> Any:
    """The text of blocks that are all text, one a line; else the content. So content is read."""
    if not isinstance(content, list) or not content:
        return content
    told = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    texts = [text for text in told if isinstance(text, str)]
    return "\n".join(texts) if len(texts) == len(content) else content
