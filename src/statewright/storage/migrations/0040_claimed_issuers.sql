-- Issuer and audience belong to the tenant that registered them first.

-- The issuer that the discovery document named, of providers without issuers of their own; null: not known yet.
ALTER TABLE oidc_provider ADD COLUMN discovered text;

-- Since when the issuers are claimed. Null: since the registration, where the provider has issuers of its own, which is so
-- for those that processes of the previous version register; else not before the issuer is discovered.
ALTER TABLE oidc_provider ADD COLUMN claimed_at bigint;
UPDATE oidc_provider SET claimed_at = created_at;

-- Of duplicates the earliest counts. The tenants of the others are told.
INSERT INTO ops_audit (tenant, at, id, actor_id, actor_kind, action, target_kind, target_id, reason)
SELECT later.tenant, now_us(), gen_random_uuid(), 'statewright', 'system', 'oidc_provider.shadow', 'OIDC_PROVIDER',
       later.id::text, 'issuer and audience were registered by another tenant before'
  FROM oidc_provider later
 WHERE EXISTS (
       SELECT FROM oidc_provider earlier
        WHERE earlier.tenant <> later.tenant
          AND (earlier.created_at, earlier.id) < (later.created_at, later.id)
          AND (earlier.uri = later.uri OR earlier.issuers && later.issuers)
          AND (earlier.audiences = '{}' OR later.audiences = '{}' OR earlier.audiences && later.audiences)
       );
