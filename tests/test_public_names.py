"""The public names, pinned: adding or removing one is a decision, made here and told in CHANGELOG.md."""

import perdure

PUBLIC = (
    "Adaptive",
    "AsyncPerdure",
    "AsyncSession",
    "CallerError",
    "CheckpointPolicy",
    "Config",
    "ConflictError",
    "Declared",
    "Migrations",
    "Perdure",
    "PerdureError",
    "Ref",
    "Session",
    "SnapshotPolicy",
    "WakePolicy",
    "WorldError",
    "__version__",
    "aconnect",
    "aopen",
    "arestore",
    "connect",
    "declare",
    "drive",
    "errors",
    "events",
    "open",
    "restore",
    "unbroken",
)


def test_the_root_exports_exactly_the_pinned_names() -> None:
    assert sorted(perdure.__all__) == sorted(PUBLIC)


def test_every_exported_name_is_there() -> None:
    assert [name for name in perdure.__all__ if not hasattr(perdure, name)] == []
