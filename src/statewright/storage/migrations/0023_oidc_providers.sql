-- Identity providers of tenants.

CREATE TABLE oidc_provider (
    tenant      text    NOT NULL,
    id          uuid    NOT NULL,
    uri         text    NOT NULL,         -- of the discovery document
    issuers     text[]  NOT NULL,         -- none: the one that is discovered
    audiences   text[]  NOT NULL,         -- none: any
    roles_claim text,                     -- null: the one of the settings
    active      boolean NOT NULL,
    created_at  bigint  NOT NULL,
    keys_since  bigint  NOT NULL,         -- keys that were fetched before do not count
    reloaded_at bigint  NOT NULL,
    PRIMARY KEY (tenant, id),
    CONSTRAINT oidc_provider_uri UNIQUE (tenant, uri)
);

-- Who has or had a provider at a URI: for the log, when another tenant registers it.
CREATE TABLE oidc_uri_owner (
    tenant   text   NOT NULL,
    uri_hash bytea  NOT NULL,
    since    bigint NOT NULL,
    PRIMARY KEY (tenant, uri_hash)
);
CREATE INDEX oidc_uri_owner_hash ON oidc_uri_owner (uri_hash);

-- One row: nodes read all providers again when it has changed.
CREATE TABLE oidc_revision (
    is_row   boolean PRIMARY KEY DEFAULT true CHECK (is_row),
    revision bigint  NOT NULL
);
INSERT INTO oidc_revision (revision) VALUES (0);
