-- Nodes: service processes on this database, and the calculation members that are connected to each of them.
--
-- Presence is a claim with a lease. Instants are microseconds since 1970-01-01T00:00:00Z by this server's clock, which is the
-- only one that judges leases; who is past its lease does not exist for the others, and its row is removed by any of them.

CREATE TABLE cluster_node (
    id          text    PRIMARY KEY,      -- new for every start of a process
    name        text    NOT NULL,         -- for people
    address     text    NOT NULL,         -- host:port of its channel for other nodes
    machine     text    NOT NULL,         -- a loopback address is of use on the same machine only
    program     text    NOT NULL,         -- release
    draining    boolean NOT NULL,         -- it stops: callouts go elsewhere, its transactions can still be joined
    revision    bigint  NOT NULL,         -- of its members
    started_at  bigint  NOT NULL DEFAULT now_us(),
    lease_until bigint  NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE cluster_member (
    node   text NOT NULL REFERENCES cluster_node ON DELETE CASCADE,
    tenant text NOT NULL,
    id     text NOT NULL,
    tags   text NOT NULL,                 -- a JSON array
    PRIMARY KEY (node, tenant, id)
);

-- Where no secret is configured: what transaction tokens are signed with, and nodes prove themselves to each other.
CREATE TABLE cluster_key (
    number smallint PRIMARY KEY DEFAULT 1 CHECK (number = 1),  -- there is one
    key    bytea    NOT NULL
);
