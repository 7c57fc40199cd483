-- Reading the past at any size, and forgetting it.

-- Both ends of a version are in the index: of all that was superseded after an instant, what also began after it is skipped
-- without a look at the table.
DROP INDEX entity_history_model;
CREATE INDEX entity_history_model ON entity_history (tenant, model, valid_to, valid_from) WHERE document IS NOT NULL;

-- A list of the past walks the ids of what there is and of what was deleted. Updates have no entry in it.
CREATE INDEX entity_history_deleted ON entity_history (tenant, model, id) WHERE document IS NULL;

-- From which instant on the versions of a model are complete; no row: from the beginning. It is set before anything is removed,
-- so whoever has read and then finds it at or before his instant has read everything.
CREATE TABLE history_horizon (
    tenant    text   NOT NULL,
    model     uuid   NOT NULL,
    kept_from bigint NOT NULL,
    PRIMARY KEY (tenant, model)
);
