"""A process that rotates the master key in small steps, for tests that kill it."""

import sys

from perdure.ambient import RealAmbient
from perdure.sealing.filevault import FileVault
from perdure.sealing.keyfile import KeyFile
from perdure.sealing.rotation import rotate


def main(store: str) -> None:
    """Say when it begins and when it is done."""
    ambient = RealAmbient()
    vault = FileVault(f"{store}.keys", ambient)
    masters = KeyFile(f"{store}.master", ambient)
    print("begins", flush=True)
    done = rotate(masters, vault, ambient, page=3)
    print(f"done {done.wrapped} {done.left}", flush=True)
    vault.close()


if __name__ == "__main__":
    main(sys.argv[1])
