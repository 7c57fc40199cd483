-- Looking for entities in states that no workflow of their model has (storage/ops/stranded.py): when the workflows of
-- a model were held against its entities last.
ALTER TABLE workflow_set ADD COLUMN surveyed_at bigint NOT NULL DEFAULT 0;

-- Incidents of models that are open.
CREATE INDEX incident_stranded ON incident (tenant, model) WHERE status = 'OPEN' AND kind = 'STATE_UNKNOWN';
