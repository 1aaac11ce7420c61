-- Sealing, timers, cold storage. `salt` names the session's salt in the vault, `card` holds title, tags and metadata
-- sealed; both are NULL in a session that is kept in the clear. `cold` says where an archived session's log lies.
ALTER TABLE session ADD COLUMN salt BLOB;
ALTER TABLE session ADD COLUMN card BLOB;
ALTER TABLE session ADD COLUMN due_at INTEGER;
ALTER TABLE session ADD COLUMN cold TEXT;

CREATE INDEX session_due ON session (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
