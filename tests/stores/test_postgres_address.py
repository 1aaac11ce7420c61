"""Addresses of PostgreSQL that say something wrong, and what the driver says of connections that are lost."""

import subprocess
import sys

import pytest

pytest.importorskip("psycopg")

import perdure
from perdure.core.errors import Invalid
from perdure.stores.postgres.connection import Address
from torture.process import ROOT, environment


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://h/x?bogus=1", "bogus is not an option"),
        ("postgresql://ana:s3cret@h/x?sslmod=require&user=b", "sslmod is not an option"),
        ("postgresql://ana:s3cret@h:port/x?%zz", "not an address of a PostgreSQL"),
    ],
)
def test_an_address_that_is_wrong_says_where_and_shows_no_password(address: str, words: str) -> None:
    for refused in (lambda: Address(address, read_only=False), lambda: perdure.open(address)):
        with pytest.raises(Invalid, match=words) as refusal:
            refused()
        assert "s3cret" not in refusal.value.message


SAYS = """
import logging, sys
import perdure.stores.postgres.connection
if sys.argv[1:]: logging.basicConfig()
logging.getLogger("psycopg").warning("error ignored terminating a pipeline")
"""


def test_what_the_driver_logs_is_for_those_who_configured_logging() -> None:
    def said(*words: str) -> str:
        command = [sys.executable, "-c", SAYS, *words]
        done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)
        return done.stderr

    assert said() == ""
    assert "error ignored" in said("configured")
