-- Unique keys (spec/models.md §11): who holds which combination of values. Only live entities do.

CREATE TABLE unique_claim (
    tenant text NOT NULL,
    hash   uuid NOT NULL,                   -- over model, key and values (storage/claims.py): one short column whatever the key is
    entity uuid NOT NULL,
    PRIMARY KEY (tenant, hash)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- An entity's claims are released by this index, so that nobody needs to know what its former version claimed.
CREATE INDEX unique_claim_entity ON unique_claim (tenant, entity);
