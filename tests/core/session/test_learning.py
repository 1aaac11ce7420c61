"""Types that msgspec learns before threads meet them: it crashes when two threads have it learn one at a time."""

import subprocess
import sys

CROWD = """
import sys, threading
sys.setswitchinterval(1e-6)
from perdure.core.session import codec, kinds
from perdure.core.session.origin import Configured, Config, Created, Timeouts
stored = codec.encode_struct(Created(owner="ana", title="t", config=Config(model="m", timeouts=Timeouts(idle=3))))
go = threading.Barrier(8)
def read():
    go.wait()
    for kind in ("created", "configured"):
        kinds.decode(kind, 1, stored if kind == "created" else b"\\x80")
crowd = [threading.Thread(target=read) for _ in range(8)]
for one in crowd: one.start()
for one in crowd: one.join()
"""


def test_every_kind_is_known_before_any_event_is_read() -> None:
    asked = "from perdure.core.session import kinds; assert set(kinds._DECODERS) == set(kinds.KINDS)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


def test_a_crowd_that_reads_at_once_lives() -> None:
    ends = [subprocess.run([sys.executable, "-c", CROWD], check=False).returncode for _ in range(5)]
    assert ends == [0] * 5
