-- What operators have done through the operations API. Rows are written in the transaction of the act, or in its statement.
CREATE TABLE ops_audit (
    tenant      text   NOT NULL,
    at          bigint NOT NULL,                 -- microseconds of the epoch, by the clock of the database
    id          uuid   NOT NULL,
    actor_id    text   NOT NULL,
    actor_kind  text   NOT NULL,
    action      text   NOT NULL,
    target_kind text   NOT NULL,
    target_id   text   NOT NULL,
    reason      text,
    details     text   NOT NULL DEFAULT '{}',    -- JSON, at most 4 KiB
    trace_id    text,
    PRIMARY KEY (tenant, at, id)
);
CREATE INDEX ops_audit_age ON ops_audit (at);
