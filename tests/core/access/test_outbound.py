"""Where a server may post to: the public network, and private ones only when it was told so."""

import pytest

from perdure.core.access.outbound import refusal

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700::1111"]
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "::1", "10.0.0.1", "172.16.5.5", "192.168.1.1", "100.64.0.1", "fd00::1", "198.18.0.1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fe80::1", "fe80::1%eth0",
    "0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "239.255.255.250", "ff02::1", "255.255.255.255", "240.0.0.1",
    "2001:0:4136:e378::", "::7f00:1", "fec0::1", "localhost", "",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("private", [False, True])
def test_public_addresses_are_told_with_tls_and_not_without(address: str, private: bool) -> None:
    assert refusal("https", [address], private=private) is None
    assert "https" in str(refusal("http", [address], private=private))


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_told_only_where_that_is_allowed_and_then_also_without_tls(address: str) -> None:
    assert "webhook_private" in str(refusal("https", [address], private=False))
    assert refusal("http", [address], private=True) is None


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("private", [False, True])
def test_what_no_receiver_has_is_never_told(address: str, private: bool) -> None:
    assert refusal("https", [address], private=private) is not None


@pytest.mark.parametrize("bad", [PRIVATE[0], NEVER[0]])
def test_one_unfit_address_among_fit_ones_is_enough(bad: str) -> None:
    assert refusal("https", [*PUBLIC, bad], private=False) is not None
    assert refusal("https", [bad, *PUBLIC], private=False) is not None


def test_a_name_that_leads_outside_as_well_needs_tls() -> None:
    assert refusal("http", ["10.0.0.1", "8.8.8.8"], private=True) is not None
    assert refusal("https", ["10.0.0.1", "8.8.8.8"], private=True) is None
