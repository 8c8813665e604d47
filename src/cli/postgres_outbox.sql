-- The outbox of Tickwheel: timers that commit with your data. Version 1.
-- One statement, so that all of it is made or nothing. Making it again changes nothing and loses no row.
DO $outbox$
BEGIN
PERFORM pg_catalog.set_config('client_min_messages', 'warning', true);

CREATE SCHEMA IF NOT EXISTS tickwheel;

-- One row. `incarnation` tells this outbox from one that was dropped and made again. `holder` is
-- the daemon that reads it until `held_until`; `epoch` rises with each reader.
CREATE TABLE IF NOT EXISTS tickwheel.reader (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version integer NOT NULL,
    incarnation bigint NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    held_until timestamptz NOT NULL DEFAULT '-infinity'
);

IF EXISTS (SELECT FROM tickwheel.reader WHERE version > 1) THEN
    RAISE EXCEPTION 'the outbox has a later version than this tickwheel: use that of the daemon';
END IF;

INSERT INTO tickwheel.reader (version, incarnation)
    VALUES (1, (pg_catalog.hashtextextended(pg_catalog.gen_random_uuid()::text, 0)
                & 9223372036854775807) | 1::bigint)
    ON CONFLICT (one) DO UPDATE SET version = 1;

CREATE SEQUENCE IF NOT EXISTS tickwheel.outbox_id;

-- What the daemon has not taken yet. `body` is the JSON of the API's request.
CREATE TABLE IF NOT EXISTS tickwheel.outbox (
    id bigint PRIMARY KEY,
    op text NOT NULL CHECK (op IN ('schedule', 'put', 'cancel', 'touch', 'complete')),
    key text CHECK (octet_length(key) BETWEEN 1 AND 256),
    body json CHECK (json_typeof(body) = 'object'),
    written timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (key IS NOT NULL OR op = 'schedule'),
    CHECK (body IS NOT NULL OR op IN ('cancel', 'complete'))
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
        autovacuum_analyze_threshold = 100000);

-- What the daemon refused, with the problem as the API would have answered it. Yours to read and
-- to delete.
CREATE TABLE IF NOT EXISTS tickwheel.rejected (
    id bigint PRIMARY KEY,
    op text NOT NULL,
    key text,
    body json,
    written timestamptz NOT NULL,
    problem json NOT NULL,
    rejected timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Rows of one key get their ids in the order in which their transactions commit: the id is taken
-- under a lock of the key, which lasts until the commit. A writer chooses neither id nor time.
--
-- Functions are named with their schema, and arguments have exactly their types: along the search
-- path of the caller any role may have put one of the same name that fits better. SET search_path
-- would do as well, and cost more than the rest.
CREATE OR REPLACE FUNCTION tickwheel.outbox_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.key IS NOT NULL AND NEW.op <> 'complete' THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(1953065835, pg_catalog.hashtext(NEW.key));
    END IF;
    NEW.id := pg_catalog.nextval('tickwheel.outbox_id'::regclass);
    NEW.written := pg_catalog.clock_timestamp();
    RETURN NEW;
END $$;

-- Wakes the reader if it sleeps. It then holds this lock; NOTIFY is left out otherwise, because it
-- makes commits wait for each other.
CREATE OR REPLACE FUNCTION tickwheel.outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared(1953065836, 0) THEN
        NOTIFY tickwheel_outbox;
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS outbox_number ON tickwheel.outbox;
CREATE TRIGGER outbox_number BEFORE INSERT ON tickwheel.outbox
    FOR EACH ROW EXECUTE FUNCTION tickwheel.outbox_number();
DROP TRIGGER IF EXISTS outbox_wake ON tickwheel.outbox;
CREATE TRIGGER outbox_wake AFTER INSERT ON tickwheel.outbox
    FOR EACH STATEMENT EXECUTE FUNCTION tickwheel.outbox_wake();

-- A time as the API reads it, rounded up to milliseconds so that no timer is early.
CREATE OR REPLACE FUNCTION tickwheel.time_text(at timestamptz) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_catalog.isfinite(at) THEN
        RAISE EXCEPTION 'at must be a time' USING ERRCODE = '22023';
    END IF;
    RETURN pg_catalog.to_char(
        pg_catalog.date_trunc('milliseconds', at + interval '999 microseconds') AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
END $$;

-- The body of a request: the fields given by name, and those in `fields`. A delay counts from now,
-- by the clock of the database.
CREATE OR REPLACE FUNCTION tickwheel.body(target text, after interval, at timestamptz, payload json,
                                          fields json) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    given text := '';
BEGIN
    IF after IS NOT NULL AND at IS NOT NULL THEN
        RAISE EXCEPTION 'give after or at, not both' USING ERRCODE = '22023';
    END IF;
    IF after < interval '0' THEN
        RAISE EXCEPTION 'after must not be negative' USING ERRCODE = '22023';
    END IF;
    IF pg_catalog.json_typeof(fields) <> 'object' THEN
        RAISE EXCEPTION 'fields must be a JSON object' USING ERRCODE = '22023';
    END IF;
    IF target IS NOT NULL THEN
        given := given || ',"target":' || pg_catalog.to_json(target)::text;
    END IF;
    IF after IS NOT NULL OR at IS NOT NULL THEN
        given := given || ',"at":'
              || pg_catalog.to_json(tickwheel.time_text(
                     coalesce(at, pg_catalog.clock_timestamp() + after)))::text;
    END IF;
    IF payload IS NOT NULL THEN
        given := given || ',"payload":' || payload::text;
    END IF;
    -- a look at the keys would decode all texts, and fail at those that no text type takes: \u0000
    IF fields::text !~ '^[[:space:]]*[{][[:space:]]*[}][[:space:]]*$' THEN
        given := given || ','
              || pg_catalog.substr(pg_catalog.btrim(fields::text, E' \t\n\r'), 2);
        RETURN '{' || pg_catalog.substr(given, 2);
    END IF;
    RETURN '{' || pg_catalog.substr(given, 2) || '}';
END $$;

-- Each returns the id of its row. `fields` takes all other fields of the API, such as
-- {"labels": {"team": "shop"}, "retry": {"max_attempts": 3}}.

CREATE OR REPLACE FUNCTION tickwheel.schedule(
        target text, after interval DEFAULT NULL, at timestamptz DEFAULT NULL,
        payload json DEFAULT NULL, key text DEFAULT NULL, fields json DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwheel.outbox (op, key, body)
        VALUES ('schedule', schedule.key,
                tickwheel.body(target, after, at, payload, fields));
    RETURN pg_catalog.currval('tickwheel.outbox_id'::regclass);
END $$;

CREATE OR REPLACE FUNCTION tickwheel.put(
        key text, target text, after interval DEFAULT NULL, at timestamptz DEFAULT NULL,
        payload json DEFAULT NULL, fields json DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwheel.outbox (op, key, body)
        VALUES ('put', put.key, tickwheel.body(target, after, at, payload, fields));
    RETURN pg_catalog.currval('tickwheel.outbox_id'::regclass);
END $$;

CREATE OR REPLACE FUNCTION tickwheel.cancel(key text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwheel.outbox (op, key) VALUES ('cancel', cancel.key);
    RETURN pg_catalog.currval('tickwheel.outbox_id'::regclass);
END $$;

CREATE OR REPLACE FUNCTION tickwheel.touch(
        key text, after interval DEFAULT NULL, at timestamptz DEFAULT NULL)
    RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF after IS NULL AND at IS NULL THEN
        RAISE EXCEPTION 'give after or at' USING ERRCODE = '22023';
    END IF;
    INSERT INTO tickwheel.outbox (op, key, body)
        VALUES ('touch', touch.key, tickwheel.body(NULL, after, at, NULL, NULL));
    RETURN pg_catalog.currval('tickwheel.outbox_id'::regclass);
END $$;

CREATE OR REPLACE FUNCTION tickwheel.complete(event text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tickwheel.outbox (op, key) VALUES ('complete', event);
    RETURN pg_catalog.currval('tickwheel.outbox_id'::regclass);
END $$;

-- A role that writes needs these and nothing more:
--     GRANT USAGE ON SCHEMA tickwheel TO shop; GRANT INSERT ON tickwheel.outbox TO shop;
-- The role of the daemon, if it does not own the schema:
--     GRANT USAGE ON SCHEMA tickwheel TO timers;
--     GRANT SELECT, DELETE ON tickwheel.outbox TO timers;
--     GRANT SELECT, INSERT ON tickwheel.rejected TO timers;
--     GRANT SELECT, UPDATE ON tickwheel.reader TO timers;
GRANT USAGE ON SEQUENCE tickwheel.outbox_id TO PUBLIC;
END $outbox$;
