-- Who polls jobs, what waits for calculation members, and which tags members ever had. Instants in microseconds of the epoch.
CREATE TABLE worker_seen (
    tenant    text   NOT NULL,
    worker    text   NOT NULL,
    node      text   NOT NULL,
    job_types text[] NOT NULL,
    seen_at   bigint NOT NULL,
    PRIMARY KEY (tenant, worker, node)
);
CREATE INDEX worker_seen_at ON worker_seen (seen_at);

CREATE TABLE callout_queue (
    node      text    NOT NULL REFERENCES cluster_node ON DELETE CASCADE,
    tenant    text    NOT NULL,
    tags      text    NOT NULL,   -- sorted, joined by commas
    depth     integer NOT NULL,
    in_flight integer NOT NULL,
    oldest_at bigint,
    PRIMARY KEY (node, tenant, tags)
);

CREATE TABLE tag_seen (
    tenant text NOT NULL,
    tag    text NOT NULL,
    PRIMARY KEY (tenant, tag)
);
INSERT INTO tag_seen SELECT DISTINCT tenant, tag FROM cluster_member, json_array_elements_text(tags::json) AS tag;

CREATE INDEX incident_alert ON incident (tenant, subject_id) WHERE status = 'OPEN' AND kind = 'NO_WORKER';
