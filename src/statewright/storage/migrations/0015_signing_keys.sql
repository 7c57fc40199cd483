-- Key pairs that sign and verify tokens: those that were issued over the API, and what has become of the keys in the settings of
-- nodes. Of a configured key there is no private half here, and it counts only on nodes that have it.

CREATE TABLE signing_key (
    kid          text    PRIMARY KEY,
    audience     text    NOT NULL CHECK (audience IN ('client', 'human')),
    public_key   bytea   NOT NULL,        -- DER, SubjectPublicKeyInfo
    private_key  bytea,                   -- PKCS#8, encrypted; none: configured
    encrypted_by text,                    -- names the key that it is encrypted with
    active       boolean NOT NULL,
    unlimited    boolean NOT NULL DEFAULT false,  -- of a configured key whose window nobody has set: it verifies until somebody does
    removed      boolean NOT NULL DEFAULT false,  -- of a configured key: deleted, and not to be entered again
    valid_from   bigint  NOT NULL,
    valid_to     bigint  NOT NULL,
    created_at   bigint  NOT NULL DEFAULT now_us(),
    CHECK ((private_key IS NULL) = (encrypted_by IS NULL))
);
