-- The fence for data in PostgreSQL (12 and later), see leaserun-fencing(7).
-- It goes into the database of the data, run by a role that no job uses:
--
--	psql -v ON_ERROR_STOP=1 -f fence.sql
--
-- and may be run again.  What the role of a job, here `writer', needs, and no
-- more:
--
--	GRANT USAGE ON SCHEMA fence TO writer;
--	GRANT EXECUTE ON FUNCTION fence.require(text, bigint) TO writer;
--
-- Each transaction of a job begins with
--
--	SELECT fence.require('nightly-report', :token);
--
-- Where a later holder has been here, that fails with SQLSTATE LR075, and the
-- transaction with it.  Otherwise a later holder waits until this transaction
-- has ended.

BEGIN;

-- That something is there already is no news.
SET LOCAL client_min_messages = warning;

-- Fifty hosts may run this at once.
DO $$ BEGIN PERFORM pg_advisory_xact_lock(1818583922, 1717988131); END $$;

CREATE SCHEMA IF NOT EXISTS fence;

CREATE TABLE IF NOT EXISTS fence.token (
    resource    text COLLATE "C" PRIMARY KEY,
    last_token  bigint NOT NULL CHECK (last_token > 0),
    seen_at     timestamptz NOT NULL,
    seen_from   name NOT NULL
);

-- SECURITY DEFINER, so that a writer needs no right on the table and cannot
-- lower a number.  Whatever is named in it is named with its schema, and the
-- search_path of the caller, or a temporary table, changes nothing.
--
-- One statement compares, writes and locks the row; a comparison that fails
-- locks it as well, which is what makes the number in the message right.
CREATE OR REPLACE FUNCTION fence.require(resource text, token bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    seen bigint;
BEGIN
    IF require.resource IS NULL OR require.resource = '' THEN
        RAISE EXCEPTION 'the fence needs the name of a resource'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF require.token IS NULL OR require.token <= 0 THEN
        RAISE EXCEPTION 'the fence of "%" needs a token', require.resource
            USING ERRCODE = 'null_value_not_allowed',
                HINT = 'It is $LEASERUN_FENCE_TOKEN: is this job run by '
                    'leaserun?';
    END IF;
    INSERT INTO fence.token AS t (resource, last_token, seen_at, seen_from)
    VALUES (require.resource, require.token, clock_timestamp(), session_user)
    ON CONFLICT ON CONSTRAINT token_pkey DO UPDATE
        SET last_token = excluded.last_token, seen_at = excluded.seen_at,
            seen_from = excluded.seen_from
        WHERE t.last_token <= excluded.last_token;
    IF NOT FOUND THEN
        SELECT t.last_token INTO seen FROM fence.token AS t
        WHERE t.resource = require.resource;
        RAISE EXCEPTION 'token % is stale: % has written to "%"',
            require.token, seen, require.resource
            USING ERRCODE = 'LR075',
                HINT = 'A later holder has the lease; end this job.';
    END IF;
END
$$;

REVOKE ALL ON TABLE fence.token FROM PUBLIC;
REVOKE ALL ON FUNCTION fence.require(text, bigint) FROM PUBLIC;

COMMENT ON TABLE fence.token IS
    'the highest token that has written to each resource; never lowered';
COMMENT ON FUNCTION fence.require(text, bigint) IS
    'raises LR075 unless the token is at least the highest seen';

COMMIT;
