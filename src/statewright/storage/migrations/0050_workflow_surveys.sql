-- When the workflows of a model were held against its entities last (storage/ops/stranded.py): apart from the workflows,
-- so that whoever looks writes to no row that imports write to.
CREATE TABLE workflow_survey (
    tenant      text   NOT NULL,
    model       uuid   NOT NULL,
    surveyed_at bigint NOT NULL,
    PRIMARY KEY (tenant, model)
);

INSERT INTO workflow_survey (tenant, model, surveyed_at)
SELECT tenant, model, surveyed_at FROM workflow_set WHERE surveyed_at > 0;

ALTER TABLE workflow_set DROP COLUMN surveyed_at;
