"""A tenant's own policy: rules over attributes, and who may read and write which fields.

A rule applies when its `when` holds and its `unless` does not. One that denies wins over everything that allows. One
that allows opens what some role could do, to those it names, within their tenant; it never lifts a scope or the bounds
of a session token, and never shows content to somebody who is an auditor and nothing else.

What a condition leaves empty, it does not ask. What it asks must be known to hold: no address is in no network. To keep
everybody out who is not inside, deny `unless` the network.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal

from msgspec import Struct

from perdure.core.access.fields import ANY, parsed
from perdure.core.access.roles import CONTENT, Action, Actor, Context, Resource, Role, is_scope, scoped
from perdure.core.errors import Invalid

DAY: Final = 24 * 60
_MINUTE: Final = 60_000_000
MAX_RULES: Final = 1_000
ROOTS: Final = (*CONTENT, "turns", "memory")
"""What a path of fields begins with; `conversation` is another word for turns, `memory` is what agents keep."""
_TAKEN: Final = frozenset({*ROOTS, "conversation", ANY})
Window = tuple[int, int]
Network = IPv4Network | IPv6Network


@lru_cache(4096)
def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise Invalid(
            f"{text[:80]!r} is not a network; write it as 10.0.0.0/8 or fd00::/8", network=text[:80]
        ) from error


@lru_cache(4096)
def _inside(address: str | None, networks: tuple[str, ...]) -> bool:
    """Whether an address is in one of the networks. An IPv4 address inside an IPv6 one is the IPv4 address."""
    try:
        known = ip_address(address or "")
    except ValueError:
        return False
    if isinstance(known, IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    return any(known in _network(text) for text in networks)


@lru_cache(1024)
def _window(text: str) -> Window:
    """The first minute of the day and the one after the last."""
    if not text:
        return 0, DAY
    begin, dash, end = text.partition("-")
    window = _minute(begin), _minute(end)
    if not dash or -1 in window or window[0] == DAY:
        raise Invalid(f"{text[:80]!r} is no time of day; write it as 08:00-18:00, in UTC", hours=text[:80])
    return window


def _minute(text: str) -> int:
    """The minute of the day, 24:00 being the end of it; -1 for what is none."""
    hour, colon, minute = text.partition(":")
    plain = colon and len(hour) == len(minute) == 2 and (hour + minute).isascii() and (hour + minute).isdecimal()
    count = int(hour) * 60 + int(minute) if plain and int(minute) < 60 else -1
    return count if count <= DAY else -1


def _during(at: int, window: Window) -> bool:
    begin, end = window
    minute = at // _MINUTE % DAY
    return begin <= minute < end if begin < end else minute >= begin or minute < end


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is asked of an actor, a resource and the circumstances. Of each list, one must fit.

    Networks are written as 10.0.0.0/8 or fd00::/8, hours as 22:00-06:00, in UTC; the last minute is not among them.
    """

    roles: tuple[Role, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    hours: str = ""

    def __post_init__(self) -> None:
        for text in self.networks:
            _network(text)
        _window(self.hours)

    def holds(self, actor: Actor, resource: Resource, context: Context) -> bool:
        """Whether all that is asked is so."""
        return (
            (not self.roles or not actor.roles.isdisjoint(self.roles))
            and (not self.kinds or actor.kind in self.kinds)
            and (not self.names or actor.name in self.names)
            and (not self.owners or resource.owner in self.owners)
            and (not self.tags or any(tag in self.tags for tag in resource.tags))
            and (not self.phases or resource.phase in self.phases)
            and (not self.tasks or resource.task in self.tasks)
            and (not self.networks or _inside(context.address, self.networks))
            and (not self.hours or _during(context.at, _window(self.hours)))
        )


ALWAYS: Final = Condition()


class Rule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Allow or deny actions, which are written as scopes are: `read:turns`, `read:*`, `*`."""

    effect: Literal["allow", "deny"]
    name: str = ""
    actions: tuple[str, ...] = ("*",)
    when: Condition = ALWAYS
    unless: Condition | None = None

    def __post_init__(self) -> None:
        for text in self.actions:
            if not is_scope(text):
                raise Invalid(f"{text[:80]!r} is not an action; write it as read:turns, read:* or *", action=text[:80])

    def applies(self, actor: Actor, resource: Resource, context: Context) -> bool:
        """Whether the circumstances are the rule's."""
        return self.when.holds(actor, resource, context) and not (
            self.unless is not None and self.unless.holds(actor, resource, context)
        )


class FieldRule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which roles may read and which may write what is at a path. An empty list is nobody.

    Unless `read` is given, everybody may; unless `write` is, those who may read: what one cannot see, one would lose
    by writing the whole. Where several rules speak of a field, all of them must agree.
    """

    path: str
    read: tuple[Role, ...] | None = None
    write: tuple[Role, ...] | None = None

    def __post_init__(self) -> None:
        parsed(self.path)


class Ruling(Struct, frozen=True):
    """The rules that speak of an action."""

    denying: tuple[Rule, ...] = ()
    allowing: tuple[Rule, ...] = ()


NO_RULING: Final = Ruling()


class Policy(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, dict=True):
    """What a tenant has laid down. Empty, the roles alone decide."""

    rules: tuple[Rule, ...] = ()
    fields: tuple[FieldRule, ...] = ()

    def __post_init__(self) -> None:
        for name in ("rules", "fields"):
            count = len(getattr(self, name))
            if count > MAX_RULES:
                raise Invalid(f"a policy has at most {MAX_RULES} {name}, this one has {count}", limit=MAX_RULES)

    @cached_property
    def rulings(self) -> Mapping[Action, Ruling]:
        """The rules by the actions they speak of."""
        found: dict[Action, tuple[list[Rule], list[Rule]]] = {}
        for rule in self.rules:
            for action in scoped(rule.actions):
                found.setdefault(action, ([], []))[rule.effect == "allow"].append(rule)
        return {action: Ruling(tuple(denying), tuple(allowing)) for action, (denying, allowing) in found.items()}

    def hidden(self, roles: frozenset[Role]) -> tuple[str, ...]:
        """The paths that an actor in these roles may not see."""
        return self._closed(roles)[0]

    def barred(self, roles: frozenset[Role]) -> tuple[str, ...]:
        """The paths that an actor in these roles may not write."""
        return self._closed(roles)[1]

    def _closed(self, roles: frozenset[Role]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        known = self._fields_by_roles.get(roles)
        if known is None:
            unseen = [rule.path for rule in self.fields if rule.read is not None and roles.isdisjoint(rule.read)]
            fixed = [rule.path for rule in self.fields if not _writes(roles, rule)]
            known = tuple(dict.fromkeys(unseen)), tuple(dict.fromkeys(fixed))
            self._fields_by_roles[roles] = known
        return known

    @cached_property
    def _fields_by_roles(self) -> dict[frozenset[Role], tuple[tuple[str, ...], tuple[str, ...]]]:
        return {}  # filled as sets of roles come by; there are 32


def _writes(roles: frozenset[Role], rule: FieldRule) -> bool:
    writers = rule.read if rule.write is None else rule.write
    return writers is None or not roles.isdisjoint(writers)


def must_name_fields(policy: Policy) -> None:
    """`Invalid` when a rule speaks of a field that no session has: it would protect nothing. Asked when a policy is
    set, not when one is read: an older one may have such rules, and the others in it count.
    """
    for rule in policy.fields:
        if parsed(rule.path)[0] not in _TAKEN:
            told = f"no session has a field {rule.path[:80]!r}; a path begins with one of {', '.join(ROOTS)}, or with *"
            raise Invalid(told, field=rule.path[:80])


OPEN: Final = Policy()
"""The policy of a tenant that has none of its own."""
