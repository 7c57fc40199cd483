-- How much nodes have handed out in the last minute, by what it waits in.
CREATE TABLE queue_rate (
    node       text    NOT NULL REFERENCES cluster_node ON DELETE CASCADE,
    tenant     text    NOT NULL,
    kind       text    NOT NULL,   -- JOB_TYPE or TAG
    name       text    NOT NULL,   -- tags: sorted, joined by commas
    handed_out integer NOT NULL,
    PRIMARY KEY (node, tenant, kind, name)
);
