-- What tenants have written in each minute of the last hours, counted by the nodes. ``minute`` is minutes since the epoch.
CREATE TABLE commit_rate (
    tenant       text   COLLATE "C" NOT NULL,
    minute       bigint NOT NULL,
    transactions bigint NOT NULL,
    versions     bigint NOT NULL,
    PRIMARY KEY (tenant, minute)
);
CREATE INDEX commit_rate_minute ON commit_rate (minute);
