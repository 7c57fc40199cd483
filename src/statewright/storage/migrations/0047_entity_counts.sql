-- Entities by model, workflow and state, kept by whatever writes entities, nodes of earlier versions included. A writer
-- adds rows of what it changed, so that no writer waits for another; every node merges these rows into the counts now
-- and then, and a reader adds both up (storage/entity_counts.py).
CREATE TABLE entity_count (
    tenant   text   NOT NULL,
    model    uuid   NOT NULL,
    workflow text   NOT NULL,
    state    text   NOT NULL,
    count    bigint NOT NULL,
    PRIMARY KEY (tenant, model, workflow, state)
) WITH (fillfactor = 70);

-- Rows live for some seconds, and readers look at all of them.
CREATE TABLE entity_count_change (
    tenant   text   NOT NULL,
    model    uuid   NOT NULL,
    workflow text   NOT NULL,
    state    text   NOT NULL,
    count    bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION count_created_entities() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entity_count_change (tenant, model, workflow, state, count)
    SELECT tenant, model, workflow, state, count(*) FROM created GROUP BY tenant, model, workflow, state;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_updated_entities() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entity_count_change (tenant, model, workflow, state, count)
    SELECT tenant, model, workflow, state, sum(count)
      FROM (SELECT tenant, model, workflow, state, 1 AS count FROM after
             UNION ALL
            SELECT tenant, model, workflow, state, -1 FROM before) AS changed
     GROUP BY tenant, model, workflow, state
    HAVING sum(count) <> 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION count_deleted_entities() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entity_count_change (tenant, model, workflow, state, count)
    SELECT tenant, model, workflow, state, -count(*) FROM deleted GROUP BY tenant, model, workflow, state;
    RETURN NULL;
END
$$;

CREATE TRIGGER count_created AFTER INSERT ON entity REFERENCING NEW TABLE AS created
    FOR EACH STATEMENT EXECUTE FUNCTION count_created_entities();
CREATE TRIGGER count_updated AFTER UPDATE ON entity REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION count_updated_entities();
CREATE TRIGGER count_deleted AFTER DELETE ON entity REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION count_deleted_entities();

-- Whether the counts tell of the entities that were there before; until then readers count. CREATE TRIGGER has waited for
-- all writers, so an empty table is known to be empty.
CREATE TABLE entity_count_state AS
SELECT NOT EXISTS (SELECT FROM entity) AS is_complete;

CREATE VIEW counted_entity AS
SELECT tenant, model, workflow, state, sum(count)::bigint AS count
  FROM (SELECT * FROM entity_count UNION ALL SELECT * FROM entity_count_change) AS counted
 GROUP BY tenant, model, workflow, state;
