-- Which locking of a model it is, so that a create can find out at its end whether the model is still locked as it was.

ALTER TABLE model ADD COLUMN lock_revision bigint NOT NULL DEFAULT 0;  -- of definition_revision, when it was locked last

-- The advisory lock that a commit with new entities of a model shares, and an unlock takes alone.
CREATE FUNCTION model_lock_key(tenant text, model uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended(tenant || '/' || model::text, 5372);

-- homes: [{"tenant", "model", "lock": lock_revision, "ts": numbers of transactions}], in the one order in which they are locked.
-- Result: {t: reason} for the transactions that cannot be written; null when all can, and no unlock comes before the end of this one.
-- plpgsql and volatile: each query inside has a snapshot of its own, taken after the lock.
CREATE FUNCTION model_locks_lost(homes jsonb) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
    home    jsonb;
    present record;
    reason  text;
    lost    jsonb;
BEGIN
    FOR n IN 0 .. jsonb_array_length(homes) - 1 LOOP
        home := homes -> n;
        PERFORM pg_advisory_xact_lock_shared(model_lock_key(home ->> 'tenant', (home ->> 'model')::uuid));
        SELECT model.state, model.lock_revision INTO present
          FROM model
         WHERE model.tenant = home ->> 'tenant' AND model.id = (home ->> 'model')::uuid;
        reason := CASE WHEN NOT FOUND THEN 'gone'
                       WHEN present.state <> 'LOCKED' THEN 'unlocked'
                       WHEN present.lock_revision <> (home ->> 'lock')::bigint THEN 'relocked'
                  END;
        IF reason IS NOT NULL THEN
            lost := coalesce(lost, '{}') || (SELECT jsonb_object_agg(t, reason) FROM jsonb_array_elements_text(home -> 'ts') AS t);
        END IF;
    END LOOP;
    RETURN lost;
END
$$;
