-- Streams of running turns, beside the log. `node` runs the turn and is believed to until `until`; a piece begins at
-- `start` and ends before `upto`, both counted in bytes of the stream. A store from before there were any gets the tables
-- when it is opened writable.

-- name: streams_there
SELECT to_regclass('perdure.stream_piece') IS NOT NULL

-- name: stream_tables
CREATE TABLE IF NOT EXISTS perdure.stream (
    session bigint NOT NULL,
    turn    bigint NOT NULL,
    node    text   NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (session, turn)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS perdure.stream_piece (
    session bigint NOT NULL,
    turn    bigint NOT NULL,
    start   bigint NOT NULL,
    upto    bigint NOT NULL,
    body    bytea  NOT NULL,
    PRIMARY KEY (session, turn, start)
);

ALTER TABLE perdure.stream_piece ALTER COLUMN body SET STORAGE EXTERNAL

-- name: stream_keep
WITH place AS (SELECT no FROM perdure.session WHERE session_id = $1 AND salt IS NOT DISTINCT FROM $2::bytea),
piece AS (
    INSERT INTO perdure.stream_piece (session, turn, start, upto, body)
    SELECT no, $3::bigint, $6::bigint, $7::bigint, $8::bytea FROM place WHERE $7::bigint > $6::bigint
    ON CONFLICT (session, turn, start) DO UPDATE SET upto = excluded.upto, body = excluded.body)
INSERT INTO perdure.stream (session, turn, node, until) SELECT no, $3::bigint, $4::text, $5::bigint FROM place
ON CONFLICT (session, turn) DO UPDATE SET node = excluded.node, until = excluded.until

-- name: stream_kept
SELECT l.node, l.until, s.tenant, s.session_id, s.salt, p.start, p.body
FROM perdure.session AS s JOIN perdure.stream AS l ON l.session = s.no LEFT JOIN perdure.stream_piece AS p
    ON p.session = l.session AND p.turn = l.turn AND p.upto > $3 AND p.start >= coalesce((
        SELECT max(start) FROM perdure.stream_piece WHERE session = l.session AND turn = l.turn AND start <= $3), 0)
WHERE s.session_id = $1 AND l.turn = $2 ORDER BY p.start

-- name: stream_let_go
WITH place AS (SELECT no FROM perdure.session WHERE session_id = $1),
pieces AS (DELETE FROM perdure.stream_piece WHERE session = (SELECT no FROM place) AND turn <= $2)
DELETE FROM perdure.stream WHERE session = (SELECT no FROM place) AND turn <= $2

-- name: stream_forget
WITH pieces AS (DELETE FROM perdure.stream_piece WHERE session = $1)
DELETE FROM perdure.stream WHERE session = $1

-- name: stream_blank
DELETE FROM perdure.stream_piece WHERE session = $1 AND turn = ANY ($2::bigint[])
