"""Which sessions are conversations that every framework may open."""

from typing import Any


def is_conversation(metadata: dict[str, Any]) -> bool:
    """Whether a session is one to talk in, by its metadata: neither a shelf of LangGraph's store nor what sessions of
    ADK share.
    """
    return "adk_shared_by" not in metadata and not (metadata.get("by") == "langgraph-store" and "namespace" in metadata)
