-- Every set of workflows that a model has had, numbered from 1 per model. What is there becomes revision 1.

-- Documents by what they are: a set that comes back is stored once.
CREATE TABLE workflow_document (
    tenant    text NOT NULL,
    hash      text NOT NULL,             -- SHA-256 of the document in UTF-8, in hexadecimal
    document  text NOT NULL,             -- as in workflow_set
    PRIMARY KEY (tenant, hash)
);

CREATE TABLE workflow_revision (
    tenant              text    NOT NULL,
    model               uuid    NOT NULL,
    revision            integer NOT NULL,
    definition_revision bigint  NOT NULL, -- of workflow_set: an entity belongs to the newest one at or below its own
    hash                text    NOT NULL,
    origin              text    NOT NULL CHECK (origin IN ('IMPORT', 'ROLLBACK', 'UPGRADE')),
    mode                text,             -- of the import, null: it was none
    note                text,
    imported_at         bigint  NOT NULL,
    imported_by_id      text    NOT NULL,
    imported_by_kind    text    NOT NULL,
    PRIMARY KEY (tenant, model, revision)
);

INSERT INTO workflow_document (tenant, hash, document)
SELECT tenant, encode(sha256(convert_to(workflows, 'UTF8')), 'hex'), workflows FROM workflow_set
    ON CONFLICT DO NOTHING;

INSERT INTO workflow_revision (tenant, model, revision, definition_revision, hash, origin, imported_at, imported_by_id, imported_by_kind)
SELECT tenant, model, 1, revision, encode(sha256(convert_to(workflows, 'UTF8')), 'hex'), 'UPGRADE', changed_at, 'system', 'system'
  FROM workflow_set;
