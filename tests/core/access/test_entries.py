"""Audit entries hold codes, ids and counts, whatever somebody put into a request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.access import entries as audit
from perdure.core.access.entries import ALL, AnyEntry, AuditEntry, Filters, Missed
from perdure.core.errors import UnknownKind

KEY = bytes(range(32))
CODES = ("what", "actor", "credential", "action", "thing", "session", "reason", "request")
WORDS = st.text(alphabet="abcXYZ019_.:-", max_size=8)
ENTRIES = st.builds(
    AuditEntry,
    at=st.integers(0, 100),
    what=WORDS,
    actor=st.one_of(st.none(), WORDS),
    session=st.one_of(st.none(), WORDS),
    action=WORDS,
    outcome=st.sampled_from(audit.OUTCOMES),
    address=st.sampled_from([None, "10.0.0.1", "::1"]),
    request=st.one_of(st.none(), WORDS),
)


@given(st.sampled_from(CODES), st.one_of(st.text(), st.integers(), st.binary()))
def test_what_is_no_code_does_not_get_in(name: str, given: Any) -> None:
    kept = getattr(audit.tidied(AuditEntry(**{"what": "read", name: given})), name)
    assert (kept == given and type(kept) is str and not set(kept) & set(" \n'\"<>{}")) or kept == audit.UNFIT


def test_addresses_and_remarks_are_kept_within_bounds() -> None:
    for wrong in ("10.0.0.1\n", "x" * 129, 7, "<script>"):
        assert audit.tidied(AuditEntry(what="x", address=wrong)).address == audit.UNFIT  # type: ignore[union-attr, arg-type]
    assert audit.tidied(AuditEntry(what="x", remark="a\nb")).remark == audit.UNFIT  # type: ignore[union-attr]
    assert len(audit.tidied(AuditEntry(what="x", remark="a" * 9_999)).remark) == audit.MAX_REMARK  # type: ignore[union-attr]
    assert audit.tidied(AuditEntry(what="x", outcome="won")).outcome == "flagged"  # type: ignore[union-attr, arg-type]


def test_an_address_is_a_pseudonym_that_only_the_key_gives() -> None:
    seen = AuditEntry(what="read", address="203.0.113.7")
    veiled, plain = audit.veiled(seen, KEY), audit.veiled(seen, KEY, plainly=True)
    assert isinstance(veiled, AuditEntry)
    assert isinstance(plain, AuditEntry)
    assert (veiled.address, plain.address) == (None, "203.0.113.7")
    assert veiled.origin == plain.origin == audit.pseudonym(KEY, "203.0.113.7")
    assert audit.pseudonym(bytes(32), "203.0.113.7") != veiled.origin
    assert "203.0.113.7" not in str(audit.to_document(veiled))


@given(ENTRIES, ENTRIES)
def test_entries_counted_together_differ_only_in_time_and_request(one: AuditEntry, two: AuditEntry) -> None:
    alike = audit.likeness(one) == audit.likeness(two)
    same = {name: getattr(one, name) == getattr(two, name) for name in AuditEntry.__struct_fields__}
    assert alike == all(same[name] for name in same if name not in ("at", "until", "count", "request"))
    if alike:
        both = audit.together(one, two)
        assert (both.count, both.at, both.until) == (2, min(one.at, two.at), max(one.at, two.at))


@given(st.one_of(ENTRIES, st.builds(Missed, at=st.integers(0, 9), count=st.integers(1, 9))))
def test_an_entry_reads_back_from_its_document(entry: AnyEntry) -> None:
    assert audit.from_document(audit.to_document(entry)) == entry


def test_an_entry_of_a_newer_perdure_is_told_as_such() -> None:
    with pytest.raises(UnknownKind):
        audit.from_document({"entry": "dreamt"})


@given(ENTRIES)
def test_filters_show_what_they_name_and_nothing_else(entry: AuditEntry) -> None:
    assert audit.fits(entry, ALL)
    assert audit.fits(entry, Filters(outcome=entry.outcome, what=entry.what, since=entry.at, until=entry.at))
    assert not audit.fits(entry, Filters(what=entry.what + "!"))
    assert not audit.fits(entry, Filters(since=entry.at + 1))
    assert not audit.fits(entry, Filters(until=entry.at - 1))
    assert not audit.fits(Missed(), Filters(actor="prn_x"))
