-- name: position
SELECT coalesce(max(position), 0) FROM record

-- name: touch
UPDATE session SET state_version = ?, digest = ?, last_active_at = ?, turns = ?, open_turn = ?
WHERE no = ? AND session_id = ? AND state_version = ? AND digest = coalesce(?, digest) AND salt IS ?

-- name: go_on
UPDATE session SET state_version = ?, digest = ?, last_active_at = ?, turns = ?
WHERE no = ? AND session_id = ? AND state_version = ? AND digest = coalesce(?, digest) AND salt IS ?

-- name: relist
UPDATE session SET state_version = ?, digest = ?, last_active_at = ?, turns = ?, open_turn = ?,
    owner_id = ?, title = ?, lifecycle_phase = ?, schema_version = ?, expires_at = ?, account = ?, metadata = ?,
    card = ?, due_at = ?
WHERE no = ? AND session_id = ? AND state_version = ? AND digest = coalesce(?, digest) AND salt IS ?

-- name: create
INSERT INTO session (session_id, tenant, owner_id, title, lifecycle_phase, schema_version, state_version, digest,
    created_at, last_active_at, activity, expires_at, turns, open_turn, parent, branch_kind, branched_at, account,
    metadata, salt, card, due_at, cold)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10 >> 26, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
RETURNING no

-- name: stir
UPDATE session SET activity = ?1 WHERE no = ?2 AND activity <> ?1

-- name: place
SELECT no, state_version, tenant, session_id, salt FROM session WHERE session_id = ?

-- name: place_of
SELECT tenant, session_id, salt FROM session WHERE no = ?

-- name: insert_record
INSERT INTO record (session, first, last, digest, body) VALUES (?, ?, ?, ?, ?)

-- name: copy_record
INSERT INTO record (session, first, last, digest, body, copied) VALUES (?, ?, ?, ?, ?, 1)
ON CONFLICT (session, first) DO UPDATE SET body = excluded.body

-- name: copy_there
SELECT body, digest FROM record WHERE session = ? AND first = ?

-- name: copies
SELECT session, body, digest FROM record
WHERE copied = 1 AND first = ? AND session IN (SELECT session FROM segment WHERE source = ?)

-- name: keep_position
INSERT INTO record (position, session, first, last, digest, body, copied) VALUES (?1, 0, ?1, 0, x'', x'', 1)

-- name: standing
SELECT no, state_version, digest, anchor_version FROM session WHERE session_id = ?

-- name: rewrite_record
UPDATE record SET body = ? WHERE session = ? AND first = ? RETURNING position

-- name: digest_at
SELECT digest FROM record WHERE session = ? AND first = ?

-- name: insert_segment
INSERT INTO segment (session, ordinal, source, origin, upto, digest)
VALUES (?, ?, (SELECT no FROM session WHERE session_id = ?), ?, ?, ?)

-- name: drop_segments
DELETE FROM segment WHERE session = ?

-- name: segments
SELECT s.session_id, g.origin, g.upto, g.digest FROM segment AS g JOIN session AS s ON s.no = g.source
WHERE g.session = ? ORDER BY g.ordinal

-- name: dependents
SELECT DISTINCT s.session_id FROM segment AS g JOIN session AS s ON s.no = g.session
WHERE g.source = ? AND g.session <> ?

-- name: insert_label
INSERT OR IGNORE INTO label (name, value, session) VALUES (?, ?, ?)

-- name: drop_labels
DELETE FROM label WHERE session = ?

-- name: insert_key
INSERT INTO idempotency (scope, principal, key, fingerprint, session, first, last) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: key
SELECT i.fingerprint, s.session_id, i.first, i.last FROM idempotency AS i JOIN session AS s ON s.no = i.session
WHERE i.scope = ? AND i.principal = ? AND i.key = ?

-- name: account
SELECT cap, spent, reserved, paused FROM account WHERE id = ?

-- name: save_account
INSERT INTO account (id, cap, spent, reserved, paused) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET cap = excluded.cap, spent = excluded.spent, reserved = excluded.reserved,
    paused = excluded.paused

-- name: save_checkpoint
INSERT INTO checkpoint (id, session, seq, version, label, "trigger", is_full, base, payload, payload_sha, state_sha,
    at, expires_at, pinned, metadata)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET is_full = excluded.is_full, base = excluded.base, payload = excluded.payload,
    payload_sha = excluded.payload_sha, state_sha = excluded.state_sha, expires_at = excluded.expires_at,
    pinned = excluded.pinned

-- name: drop_checkpoint
DELETE FROM checkpoint WHERE session = ? AND id = ?

-- name: checkpoints
SELECT c.id, c.seq, c.version, c.label, c."trigger", c.is_full, c.base, c.payload, c.payload_sha, c.state_sha, c.at,
    c.expires_at, c.pinned, c.metadata, s.tenant, s.session_id, s.salt
FROM checkpoint AS c JOIN session AS s ON s.no = c.session WHERE s.session_id = ? ORDER BY c.seq

-- name: checkpoint
SELECT c.id, c.seq, c.version, c.label, c."trigger", c.is_full, c.base, c.payload, c.payload_sha, c.state_sha, c.at,
    c.expires_at, c.pinned, c.metadata, s.tenant, s.session_id, s.salt
FROM checkpoint AS c JOIN session AS s ON s.no = c.session WHERE c.id = ?

-- name: save_snapshot
INSERT OR REPLACE INTO snapshot (session, version, state_blob, checksum) VALUES (?, ?, ?, ?)

-- name: thin_snapshots
DELETE FROM snapshot WHERE session = ? AND version IN (
    SELECT version FROM snapshot WHERE session = ? AND version > ? ORDER BY version DESC LIMIT -1 OFFSET ?)

-- name: drop_snapshots
DELETE FROM snapshot WHERE session = ? AND version >= ? AND version <> ?

-- name: anchor_version
SELECT no, anchor_version FROM session WHERE session_id = ?

-- name: snapshot
SELECT n.version, n.state_blob, n.checksum, s.tenant, s.session_id, s.salt FROM snapshot AS n JOIN session AS s ON s.no = n.session
WHERE s.session_id = ? AND n.version <= ? ORDER BY n.version DESC LIMIT 1

-- name: run
SELECT first, digest, body, last FROM record
WHERE session = ? AND first >= coalesce((SELECT max(first) FROM record WHERE session = ? AND first <= ?), 0)
    AND first <= ? AND last > ? ORDER BY first LIMIT ?

-- name: run_newest
SELECT first, digest, body, last FROM record WHERE session = ? AND first <= ? AND last > ? ORDER BY first DESC LIMIT ?

-- name: digest_before
SELECT digest, last FROM record WHERE session = ? AND first < ? ORDER BY first DESC LIMIT 1

-- name: prune_records
DELETE FROM record WHERE session = ? AND last <= ? RETURNING position

-- name: anchor
UPDATE session SET anchor_version = ?, anchor_digest = ? WHERE no = ?

-- name: drop_snapshots_before
DELETE FROM snapshot WHERE session = ? AND version < ?

-- name: erase_records
DELETE FROM record WHERE session = ? RETURNING position

-- name: erase_snapshots
DELETE FROM snapshot WHERE session = ?

-- name: erase_checkpoints
DELETE FROM checkpoint WHERE session = ?

-- name: erase_keys
DELETE FROM idempotency WHERE session = ?

-- name: erase_session
DELETE FROM session WHERE no = ?

-- name: insert_tombstone
INSERT INTO record (session, first, last, digest, body)
VALUES (0, (SELECT coalesce(max(position), 0) + 1 FROM record), ?, ?, ?)

-- name: changes
SELECT r.position, s.session_id, r.first, r.last, r.body, r.digest, s.tenant, s.salt FROM record AS r
LEFT JOIN session AS s ON s.no = r.session
WHERE r.position > ? AND r.copied IS NULL ORDER BY r.position LIMIT ?

-- name: create_words
CREATE VIRTUAL TABLE words USING fts5 (
    content, content = '', contentless_delete = 1, detail = none, tokenize = 'unicode61 remove_diacritics 0'
)

-- name: begin_words
INSERT INTO cursor (name, position) VALUES ('words', 0)

-- name: words_cursor
SELECT position FROM cursor WHERE name = 'words'

-- name: move_words_cursor
UPDATE cursor SET position = ? WHERE name = 'words'

-- name: records_after
SELECT r.position, r.body, r.first, r.digest, s.tenant, s.session_id, s.salt FROM record AS r
LEFT JOIN session AS s ON s.no = r.session WHERE r.position > ? ORDER BY r.position LIMIT ?

-- name: index_words
INSERT INTO words (rowid, content) VALUES (?, ?)

-- name: forget_words
DELETE FROM words WHERE rowid = ?

-- name: look_at_words
SELECT rowid FROM words WHERE words MATCH 'x' LIMIT 1

-- name: scrub_words
INSERT INTO words (words) VALUES ('optimize')

-- name: orphans
SELECT count(*) FROM record AS r LEFT JOIN session AS s ON s.no = r.session WHERE s.no IS NULL AND r.session <> 0

-- name: forget_snapshots
DELETE FROM snapshot AS n
WHERE (n.session = ? OR n.session IN (SELECT session FROM segment WHERE source = ?)) AND n.version >= ?
    AND n.version <> (SELECT anchor_version FROM session WHERE no = n.session)

-- name: blank_checkpoints
UPDATE checkpoint SET payload = ?, payload_sha = x'', state_sha = x'', is_full = 1, base = NULL
WHERE (session = ? OR session IN (SELECT session FROM segment WHERE source = ?)) AND version >= ?

-- name: snapshots
SELECT n.version, n.state_blob, n.checksum, s.tenant, s.session_id, s.salt FROM snapshot AS n JOIN session AS s ON s.no = n.session
WHERE s.session_id = ? ORDER BY n.version

-- name: checkpoint_of
SELECT 1 FROM checkpoint WHERE id = ? AND session = ?

-- name: due
SELECT no, session_id FROM session WHERE due_at <= ? AND tenant = coalesce(?, tenant) ORDER BY due_at LIMIT ?

-- name: lend
UPDATE session SET due_at = ? WHERE no = ?

-- name: arm
UPDATE session SET due_at = ? WHERE session_id = ? AND digest = ?

-- name: freeze
UPDATE session SET cold = ? WHERE no = ? AND digest = ? AND anchor_version = ?

-- name: thaw
UPDATE session SET cold = NULL WHERE no = ?

-- name: setting
SELECT value FROM setting WHERE name = ?

-- name: save_setting
INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: salts
SELECT session_id, salt FROM session WHERE session_id > ? ORDER BY session_id LIMIT ?

-- name: used_salts
SELECT salt FROM session WHERE salt IS NOT NULL
