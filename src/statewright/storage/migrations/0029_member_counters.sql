-- What a node tells of its members, every few seconds where it has changed. Instants in microseconds of the epoch.
ALTER TABLE cluster_member
    ADD COLUMN software     text    NOT NULL DEFAULT '',
    ADD COLUMN connected_at bigint  NOT NULL DEFAULT 0,
    ADD COLUMN last_seen_at bigint  NOT NULL DEFAULT 0,
    ADD COLUMN in_flight    integer NOT NULL DEFAULT 0,
    ADD COLUMN succeeded    bigint  NOT NULL DEFAULT 0,
    ADD COLUMN failed       bigint  NOT NULL DEFAULT 0,
    ADD COLUMN timed_out    bigint  NOT NULL DEFAULT 0,
    ADD COLUMN draining     boolean NOT NULL DEFAULT false;  -- it is sent nothing any more
