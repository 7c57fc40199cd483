-- Public keys of others that tenants trust, and the assertions that clients have authenticated with: each counts once.

CREATE TABLE trusted_key (
    tenant     text    NOT NULL,
    kid        text    NOT NULL,
    jwk        text    NOT NULL,          -- JSON, as it was registered
    audience   text    NOT NULL CHECK (audience IN ('client', 'human')),
    issuers    text[]  NOT NULL,          -- none: any
    active     boolean NOT NULL,
    valid_from bigint  NOT NULL,
    valid_to   bigint  NOT NULL,
    created_at bigint  NOT NULL DEFAULT now_us(),
    PRIMARY KEY (tenant, kid),
    CONSTRAINT trusted_key_kid UNIQUE (kid)
);

CREATE TABLE client_assertion (
    tenant     text   NOT NULL,
    client     text   NOT NULL,
    digest     bytea  NOT NULL,           -- of its id
    expires_at bigint NOT NULL,
    PRIMARY KEY (tenant, client, digest),
    FOREIGN KEY (tenant, client) REFERENCES auth_client (tenant, id) ON UPDATE CASCADE ON DELETE CASCADE
);
