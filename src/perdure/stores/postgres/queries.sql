-- name: enter
SELECT perdure.enter()

-- name: note
INSERT INTO perdure.writer (id, number) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, at = excluded.at

-- name: noted
SELECT number FROM perdure.writer WHERE id = $1

-- name: forget_notes
DELETE FROM perdure.writer WHERE at < now() - interval '3 days'

-- name: tell
SELECT pg_notify('perdure', '')

-- name: settle_in
SELECT current_setting('server_encoding'), current_setting('server_version_num')::bigint,
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('default_transaction_read_only',
        CASE WHEN $2 THEN 'on' ELSE current_setting('default_transaction_read_only') END, false),
    set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false),
    set_config('lock_timeout', $1::text, false),
    set_config('idle_in_transaction_session_timeout', $1::text, false),
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false)

-- name: be_patient
SELECT set_config('idle_in_transaction_session_timeout', '0', true)

-- name: be_prompt
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true)

-- name: migrating
SELECT pg_advisory_xact_lock(31634495560970853)

-- name: format
SELECT value FROM perdure.setting WHERE name = 'format'

-- name: schema
SELECT to_regclass('perdure.setting') IS NOT NULL, EXISTS (
    SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'perdure')

-- name: setting
SELECT value FROM perdure.setting WHERE name = $1

-- name: save_setting
INSERT INTO perdure.setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: position
SELECT coalesce(max(position), 0) FROM perdure.record

-- name: touch
SELECT outcome, place, facts
FROM perdure.touch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

-- name: pay
SELECT outcome, place, facts
FROM perdure.pay($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22, $23)

-- name: relist
UPDATE perdure.session SET owner_id = $2, title = $3, folded = $4, lifecycle_phase = $5, schema_version = $6,
    expires_at = $7, account = $8, metadata = $9::jsonb, labels = $10, marks = $11, card = $12, due_at = $13
WHERE session_id = $1

-- name: create
INSERT INTO perdure.session (session_id, tenant, owner_id, title, folded, lifecycle_phase, schema_version,
    state_version, digest, created_at, last_active_at, activity, expires_at, turns, open_turn, parent, branch_kind,
    branched_at, account, metadata, labels, marks, salt, card, due_at, cold)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::bigint, $11::bigint >> 26, $12, $13, $14, $15, $16, $17, $18,
    $19::jsonb, $20, $21, $22, $23, $24, $25)
ON CONFLICT (session_id) DO NOTHING RETURNING no

-- name: keep
SELECT perdure.keep($1, $2, $3, $4, $5, $6, $7, $8)

-- name: place
SELECT no, state_version, tenant, session_id, salt FROM perdure.session WHERE session_id = $1

-- name: place_of
SELECT tenant, session_id, salt FROM perdure.session WHERE no = $1

-- name: standing
SELECT no, state_version, digest, anchor_version FROM perdure.session WHERE session_id = $1

-- name: copy_record
INSERT INTO perdure.record (position, session, first, last, digest, body, copied)
VALUES (nextval('perdure.position'), $1, $2, $3, $4, $5, true)
ON CONFLICT (session, first) DO UPDATE SET body = excluded.body

-- name: copy_there
SELECT body, digest FROM perdure.record WHERE session = $1 AND first = $2

-- name: copies
SELECT session, body, digest FROM perdure.record
WHERE copied AND first = $1 AND session IN (SELECT session FROM perdure.segment WHERE source = $2)

-- name: keep_position
INSERT INTO perdure.record (position, session, first, last, digest, body, copied)
VALUES ($1::bigint, 0, $1::bigint, 0, '', '', true)

-- name: rewrite_record
UPDATE perdure.record SET body = $1 WHERE session = $2 AND first = $3 RETURNING position

-- name: digest_at
SELECT digest FROM perdure.record WHERE session = $1 AND first = $2

-- name: insert_segment
INSERT INTO perdure.segment (session, ordinal, source, origin, upto, digest)
VALUES ($1, $2, (SELECT no FROM perdure.session WHERE session_id = $3), $4, $5, $6)

-- name: drop_segments
DELETE FROM perdure.segment WHERE session = $1

-- name: segments
SELECT s.session_id, g.origin, g.upto, g.digest
FROM perdure.segment AS g JOIN perdure.session AS s ON s.no = g.source WHERE g.session = $1 ORDER BY g.ordinal

-- name: has_dependents
SELECT 1 FROM perdure.segment WHERE source = $1 AND session <> $1 LIMIT 1

-- name: key
SELECT i.fingerprint, s.session_id, i.first, i.last
FROM perdure.idempotency AS i JOIN perdure.session AS s ON s.no = i.session
WHERE i.mark = $1 AND i.scope =
    CASE WHEN $2::uuid IS NULL THEN 0 ELSE (SELECT no FROM perdure.session WHERE session_id = $2::uuid) END

-- name: account
SELECT cap, spent, reserved, paused FROM perdure.account WHERE mark = $1

-- name: save_account
INSERT INTO perdure.account (mark, id, cap, spent, reserved, paused) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (mark) DO UPDATE SET cap = excluded.cap, spent = excluded.spent, reserved = excluded.reserved,
    paused = excluded.paused

-- name: save_checkpoint
INSERT INTO perdure.checkpoint (id, session, seq, version, label, "trigger", is_full, base, payload, payload_sha,
    state_sha, at, expires_at, pinned, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (id) DO UPDATE SET is_full = excluded.is_full, base = excluded.base, payload = excluded.payload,
    payload_sha = excluded.payload_sha, state_sha = excluded.state_sha, expires_at = excluded.expires_at,
    pinned = excluded.pinned

-- name: drop_checkpoint
DELETE FROM perdure.checkpoint WHERE session = $1 AND id = $2

-- name: checkpoint_of
SELECT 1 FROM perdure.checkpoint WHERE id = $1 AND session = $2

-- name: blank_checkpoints
UPDATE perdure.checkpoint SET payload = $1, payload_sha = '', state_sha = '', is_full = true, base = NULL
WHERE (session = $2 OR session IN (SELECT session FROM perdure.segment WHERE source = $2)) AND version >= $3

-- name: save_snapshot
INSERT INTO perdure.snapshot (session, version, state_blob, checksum) VALUES ($1, $2, $3, $4)
ON CONFLICT (session, version) DO UPDATE SET state_blob = excluded.state_blob, checksum = excluded.checksum

-- name: thin_snapshots
DELETE FROM perdure.snapshot WHERE session = $1 AND version IN (
    SELECT n.version FROM perdure.snapshot AS n JOIN perdure.session AS s ON s.no = n.session
    WHERE n.session = $1 AND n.version > s.anchor_version ORDER BY n.version DESC OFFSET $2)

-- name: drop_snapshots
DELETE FROM perdure.snapshot AS n USING perdure.session AS s
WHERE s.session_id = $1 AND n.session = s.no AND n.version >= $2
    AND (s.anchor_version = 0 OR n.version <> s.anchor_version)

-- name: drop_snapshots_before
DELETE FROM perdure.snapshot WHERE session = $1 AND version < $2

-- name: forget_snapshots
DELETE FROM perdure.snapshot AS n USING perdure.session AS s
WHERE s.no = n.session AND n.version <> s.anchor_version AND n.version >= $2
    AND (n.session = $1 OR n.session IN (SELECT session FROM perdure.segment WHERE source = $1))

-- name: prune_records
DELETE FROM perdure.record WHERE session = $1 AND last <= $2 RETURNING position

-- name: anchor
UPDATE perdure.session SET anchor_version = $1, anchor_digest = $2 WHERE no = $3

-- name: erase_records
DELETE FROM perdure.record WHERE session = $1 RETURNING position

-- name: erase_snapshots
DELETE FROM perdure.snapshot WHERE session = $1

-- name: erase_checkpoints
DELETE FROM perdure.checkpoint WHERE session = $1

-- name: erase_keys
DELETE FROM perdure.idempotency WHERE session = $1

-- name: erase_session
DELETE FROM perdure.session WHERE no = $1

-- name: insert_tombstone
INSERT INTO perdure.record (position, session, first, last, digest, body)
SELECT p.next, 0, p.next, $1, $2, $3 FROM (SELECT nextval('perdure.position') AS next) AS p

-- name: fresh_number
SELECT nextval(pg_get_serial_sequence('perdure.session', 'no'))

-- name: create_numbered
INSERT INTO perdure.session (no, session_id, tenant, owner_id, title, folded, lifecycle_phase, schema_version,
    state_version, digest, created_at, last_active_at, activity, expires_at, turns, open_turn, parent, branch_kind,
    branched_at, account, metadata, labels, marks, salt, card, due_at, cold)
OVERRIDING SYSTEM VALUE
VALUES ($26, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::bigint, $11::bigint >> 26, $12, $13, $14, $15, $16, $17,
    $18, $19::jsonb, $20, $21, $22, $23, $24, $25)
ON CONFLICT (session_id) DO NOTHING RETURNING no

-- name: stage_records
COPY perdure.record (position, session, first, last, digest, body, copied) FROM STDIN (FORMAT BINARY)

-- name: place_staged
WITH staged AS (
    SELECT first, nextval('perdure.position') AS next
    FROM (SELECT first FROM perdure.record WHERE session = $1 AND position < 0 ORDER BY first) AS r)
UPDATE perdure.record AS r SET position = staged.next FROM staged WHERE r.session = $1 AND r.first = staged.first

-- name: due
WITH taken AS (
    SELECT no, due_at FROM perdure.session WHERE due_at <= $1 AND tenant = coalesce($2, tenant)
    ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED)
UPDATE perdure.session AS s SET due_at = $3 FROM taken WHERE s.no = taken.no RETURNING taken.due_at, s.session_id

-- name: arm
UPDATE perdure.session SET due_at = $2 WHERE session_id = $1 AND digest = $3 RETURNING no

-- name: freeze
UPDATE perdure.session SET cold = $1 WHERE no = $2 AND digest = $3 AND anchor_version = $4 RETURNING no

-- name: cold
SELECT cold FROM perdure.session WHERE no = $1

-- name: thaw
UPDATE perdure.session SET cold = NULL WHERE no = $1

-- name: run
WITH place AS (SELECT no, tenant, session_id, salt FROM perdure.session WHERE session_id = $1),
found AS (
    SELECT r.first, r.digest, r.body, r.last FROM place JOIN perdure.record AS r ON r.session = place.no
    WHERE r.first <= $3 AND r.last > $2 AND r.first >= coalesce((
        SELECT max(first) FROM perdure.record WHERE session = (SELECT no FROM place) AND first <= $2 + 1), 0)
    ORDER BY r.first LIMIT $4)
SELECT f.first, f.digest, f.body, f.last, place.tenant, place.session_id, place.salt, b.digest, b.last
FROM found AS f CROSS JOIN place LEFT JOIN LATERAL (
    SELECT digest, last FROM perdure.record
    WHERE session = place.no AND first < (SELECT min(first) FROM found) ORDER BY first DESC LIMIT 1) AS b ON true
ORDER BY f.first

-- name: run_newest
WITH place AS (SELECT no, tenant, session_id, salt FROM perdure.session WHERE session_id = $1),
found AS (
    SELECT r.first, r.digest, r.body, r.last FROM place JOIN perdure.record AS r ON r.session = place.no
    WHERE r.first <= $3 AND r.last > $2 ORDER BY r.first DESC LIMIT $4)
SELECT f.first, f.digest, f.body, f.last, place.tenant, place.session_id, place.salt, b.digest, b.last
FROM found AS f CROSS JOIN place LEFT JOIN LATERAL (
    SELECT digest, last FROM perdure.record
    WHERE session = place.no AND first < (SELECT min(first) FROM found) ORDER BY first DESC LIMIT 1) AS b ON true
ORDER BY f.first

-- name: snapshot
SELECT n.version, n.state_blob, n.checksum, s.tenant, s.session_id, s.salt
FROM perdure.snapshot AS n JOIN perdure.session AS s ON s.no = n.session
WHERE s.session_id = $1 AND n.version <= $2 ORDER BY n.version DESC LIMIT 1

-- name: snapshots
SELECT n.version, n.state_blob, n.checksum, s.tenant, s.session_id, s.salt
FROM perdure.snapshot AS n JOIN perdure.session AS s ON s.no = n.session
WHERE s.session_id = $1 ORDER BY n.version

-- name: checkpoints
SELECT c.id, c.seq, c.version, c.label, c."trigger", c.is_full, c.base, c.payload, c.payload_sha, c.state_sha, c.at,
    c.expires_at, c.pinned, c.metadata, s.tenant, s.session_id, s.salt
FROM perdure.checkpoint AS c JOIN perdure.session AS s ON s.no = c.session WHERE s.session_id = $1 ORDER BY c.seq

-- name: checkpoint
SELECT c.id, c.seq, c.version, c.label, c."trigger", c.is_full, c.base, c.payload, c.payload_sha, c.state_sha, c.at,
    c.expires_at, c.pinned, c.metadata, s.tenant, s.session_id, s.salt
FROM perdure.checkpoint AS c JOIN perdure.session AS s ON s.no = c.session WHERE c.id = $1

-- name: changes
SELECT r.position, s.session_id, r.first, r.last, r.body, r.digest, s.tenant, s.salt
FROM perdure.record AS r LEFT JOIN perdure.session AS s ON s.no = r.session
WHERE r.position > $1 AND r.copied IS NULL ORDER BY r.position LIMIT $2

-- name: words_cursor
SELECT position FROM perdure.cursor WHERE name = 'words'

-- name: hold_words
SELECT position FROM perdure.cursor WHERE name = 'words' FOR UPDATE

-- name: begin_words
INSERT INTO perdure.cursor (name, position) VALUES ('words', 0) ON CONFLICT DO NOTHING

-- name: words_behind
SELECT NOT EXISTS (SELECT 1 FROM perdure.cursor WHERE name = 'words') OR EXISTS (
    SELECT 1 FROM perdure.record WHERE position > (SELECT position FROM perdure.cursor WHERE name = 'words'))

-- name: move_words_cursor
UPDATE perdure.cursor SET position = $1 WHERE name = 'words'

-- name: records_after
SELECT r.position, r.body, r.first, r.digest, s.tenant, s.session_id, s.salt
FROM perdure.record AS r LEFT JOIN perdure.session AS s ON s.no = r.session
WHERE r.position > $1 ORDER BY r.position LIMIT $2

-- name: index_words
INSERT INTO perdure.word (position, words) VALUES ($1, $2)
ON CONFLICT (position) DO UPDATE SET words = excluded.words

-- name: forget_words
DELETE FROM perdure.word WHERE position = ANY ($1::bigint[])

-- name: facts
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('synchronous_standby_names'), pg_is_in_recovery(),
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
     FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'perdure' AND c.relkind = 'r'),
    (SELECT count(*) FROM perdure.session),
    (SELECT count(*) FROM perdure.record),
    (SELECT count(*) FROM perdure.record AS r LEFT JOIN perdure.session AS s ON s.no = r.session
     WHERE s.no IS NULL AND r.session <> 0)

-- name: salts
SELECT session_id, salt FROM perdure.session WHERE $1::uuid IS NULL OR session_id > $1::uuid
ORDER BY session_id LIMIT $2

-- name: used_salts
SELECT salt FROM perdure.session WHERE salt IS NOT NULL
UNION ALL SELECT salt FROM perdure.blob WHERE salt IS NOT NULL
