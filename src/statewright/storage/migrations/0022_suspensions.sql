-- Suspensions: what operators have stopped for a while. Nodes keep the active ones in memory; a change raises the revision, and each
-- node says in its presence row which revision it knows. Of an entity the flag in its row counts, which commits read with the row.

ALTER TABLE cluster_node ADD COLUMN switches bigint NOT NULL DEFAULT 0;   -- the revision of suspensions that it knows

CREATE TABLE switch_revision (
    number   smallint PRIMARY KEY DEFAULT 1 CHECK (number = 1),  -- there is one
    revision bigint   NOT NULL
);
INSERT INTO switch_revision (revision) VALUES (0);

-- Instants in microseconds of the epoch, by the clock of the database.
CREATE TABLE suspension (
    tenant        text   NOT NULL,
    id            uuid   NOT NULL,
    scope         text   NOT NULL,
    target        text   NOT NULL,          -- tells it from all others of its scope
    details       text   NOT NULL,          -- the members of the target, as JSON
    reason        text   NOT NULL,
    until         bigint,                   -- ends by itself
    since         bigint NOT NULL DEFAULT now_us(),
    by_id         text   NOT NULL,
    by_kind       text   NOT NULL,
    revision      bigint NOT NULL,
    ended_at      bigint,
    ended_by_id   text,
    ended_by_kind text,
    end_reason    text,
    timers        text,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX suspension_active ON suspension (tenant, scope, target) WHERE ended_at IS NULL;
CREATE INDEX suspension_until ON suspension (until) WHERE ended_at IS NULL AND until IS NOT NULL;
CREATE INDEX suspension_ended ON suspension (ended_at) WHERE ended_at IS NOT NULL;
