"""Turns and events as people read them. Redacted content is marked as such, never guessed at."""

from typing import Any

from rich.console import Console
from rich.text import Text

from perdure.core.session.event import Event
from perdure.core.session.steering import Steered
from perdure.core.session.transcript import ToolCall
from perdure.core.session.turns import Message, ToolAsked, TurnFinished, TurnInterrupted, TurnStarted
from perdure.core.session.turns import said as said_in
from perdure.edge.cli import output
from perdure.edge.cli.documents import spell
from perdure.edge.cli.telling import Told
from perdure.edge.cli.text import clean, day_and_time, one_line

REDACTED = "[redacted]"
_LINE = 120
_STATUS_STYLES = {"finished": "dim", "open": "yellow", "interrupted": "red", "rolled_back": "dim", "aside": "dim"}


def show_turn(console: Console, item: Told) -> None:
    """One turn: who said what, each tool call with its result, how it ended."""
    turn = item.turn
    name = turn.status if turn.number is None else f"turn {turn.number} · {turn.status}"
    head = f"{name} · {day_and_time(item.at)} · versions {turn.first}–{turn.last}"
    console.print(Text(head, style=_STATUS_STYLES.get(turn.status, "")))
    calls = {call.call: call for call in item.calls}
    for event in item.events:
        _show_part(console, event, calls)
    console.print()


def _show_part(console: Console, event: Event, calls: dict[str, ToolCall]) -> None:
    data = event.data
    match data:
        case TurnStarted() | TurnFinished():
            message = said_in(data)
            if message is not None:
                style = output.ROLE_STYLES.get(message.role, "bold")
                output.labelled(console, message.role, content_text(message.content), style=style)
        case Message():
            said = REDACTED if event.redacted else content_text(data.content)
            role = "message" if event.redacted else data.role
            style = output.ROLE_STYLES.get(data.role, "bold")
            if said or not isinstance(data.content, list):  # a list that says nothing to people is no message to them
                output.labelled(console, role, said, style=style, body_style="dim" if event.redacted else "")
        case ToolAsked():
            call = calls.get(event.target or "")
            if call is not None:
                said, style = (REDACTED, "dim") if event.redacted else _call_text(call)
                output.labelled(console, "tool", said, style="bold yellow", body_style=style)
        case Steered():
            said, style = (REDACTED, "dim") if event.redacted else (data.text, "")
            output.labelled(console, "steer", said, style=output.ROLE_STYLES.get("user", "bold"), body_style=style)
        case TurnInterrupted():
            if data.text:
                output.labelled(console, "assistant", data.text, style=output.ROLE_STYLES.get("assistant", "bold"))
            output.labelled(console, "ended", _interruption(data), style="bold red")
        case _:
            pass


def content_text(content: Any) -> str:
    """What was said, as text: plain, or the text blocks with the rest as JSON."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return spell(content)
    return "\n".join(_block_text(block) for block in content if not _is_rest(block))


def _is_rest(block: Any) -> bool:
    """Whether it only says how a provider sent the block before it."""
    match block:
        case {"type": "foreign", "block": {"rest": dict(), **more}}:
            return not more
        case _:
            return False


def _block_text(block: Any) -> str:
    match block:
        case {"text": str(text)}:
            return text
        case {"type": "thinking", "thinking": str(text)}:
            return f"(thinking) {text}".rstrip()
        case {"type": "tool_result", "tool_use_id": str(call), "content": result}:  # its call is not shown here
            return f"result of {call}: {result_text(result)}"
        case _:
            return spell(block)


def result_text(result: Any) -> str:
    """What a tool returned: text as it is, blocks as what they say, other data as JSON."""
    blocks = isinstance(result, list) and result and all(isinstance(item, dict) and "type" in item for item in result)
    return content_text(result) if blocks or isinstance(result, str) else spell(result)


def _call_text(call: ToolCall) -> tuple[str, str]:
    asked = f"{call.name}({arguments_text(call.arguments)})"
    if not call.done:
        return f"{asked} → no result", "yellow"
    if call.error is not None:
        return f"{asked} → error: {call.error}", "red"
    return f"{asked} → {result_text(call.result)}", ""


def arguments_text(arguments: Any) -> str:
    """Arguments as one would write them in a call."""
    if isinstance(arguments, dict):
        return ", ".join(f"{key}={spell(value)}" for key, value in arguments.items())
    return "" if arguments is None else spell(arguments)


def _interruption(data: TurnInterrupted) -> str:
    said = f"interrupted ({data.reason or 'no reason given'})"
    for call in data.unfinished:
        key = f" under the key {call.key}" if call.key else ""
        said += (
            f"\nretry {call.name or call.call}{key}" if call.started else f"\nnever started: {call.name or call.call}"
        )
    return said


def event_line(console: Console, event: Event, *, with_session: bool) -> None:
    """One event on one line; where several sessions are shown, with the session it was written in."""
    content = REDACTED if event.redacted else _summary(event)
    line = Text(day_and_time(event.at), style="dim")
    if with_session:
        line.append(f"  {event.session}", style="dim")
    line.append(f"  {event.version:>5}  ")
    line.append(clean(event.kind), style="bold")
    line.append(f"  {content}" if content else "")
    console.print(line, soft_wrap=not console.is_terminal, overflow="ellipsis", no_wrap=True)


def _summary(event: Event) -> str:
    from perdure.core.session import codec

    data = event.data
    if isinstance(data, Message):
        return one_line(f"{data.role}: {content_text(data.content)}", _LINE)
    document = codec.decode(codec.encode_struct(data))
    return one_line(spell(document), _LINE) if document else ""
