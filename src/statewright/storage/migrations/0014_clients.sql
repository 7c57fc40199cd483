-- Machine clients: those that were created over the API, and the one that each start of a node enters from its settings.
-- Of a secret there is only its hash. Ids are unique over all tenants, because a client says no tenant when it asks for a token.

CREATE TABLE auth_client (
    tenant      text    NOT NULL,
    id          text    NOT NULL,
    user_id     text    NOT NULL,         -- whom its work is attributed to
    roles       text[]  NOT NULL,
    secret_hash text    NOT NULL,
    configured  boolean NOT NULL,         -- it counts on nodes whose settings name it
    created_at  bigint  NOT NULL,
    updated_at  bigint  NOT NULL,
    PRIMARY KEY (tenant, id),
    CONSTRAINT auth_client_id UNIQUE (id)
);
