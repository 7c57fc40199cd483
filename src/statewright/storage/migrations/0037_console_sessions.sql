-- Logins to the web console (docs/console.md#login). The id of a session is known to its browser alone: here is its digest.

CREATE TABLE console_session (
    tenant         text   NOT NULL,
    digest         bytea  NOT NULL,
    principal      text   NOT NULL,         -- to be shown
    sealed         bytea  NOT NULL,         -- the bearer token, and what renews it
    token_ends_at  bigint NOT NULL,
    created_at     bigint NOT NULL,
    seen_at        bigint NOT NULL,
    ends_at        bigint NOT NULL,
    renewing_until bigint NOT NULL DEFAULT 0, -- some node is asking for a new token
    PRIMARY KEY (tenant, digest),
    CONSTRAINT console_session_digest UNIQUE (digest)
);
CREATE INDEX console_session_ends_at ON console_session (ends_at);
