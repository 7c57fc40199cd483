-- Versions of definitions that new instances were made of because they were the latest that a process knew (definitions.py).
--
-- outdated   what makes a transaction fail: a later version that was stored before this statement began

-- [reads]
outdated AS MATERIALIZED (
    -- ORDER BY … LIMIT 1 keeps the planner at one index probe per definition, however many instances of it a batch has.
    SELECT unnest(assumed.ts) AS t
      FROM json_to_recordset($latest::json) AS assumed (tenant text, language text, id text, version int, ts int[])
     CROSS JOIN LATERAL (
            SELECT version FROM process_definition AS made
             WHERE made.tenant = assumed.tenant AND made.language = assumed.language AND made.id = assumed.id
             ORDER BY version DESC
             LIMIT 1) AS latest
     WHERE latest.version > assumed.version
),

-- [conditions]
       AND t NOT IN (SELECT t FROM outdated)

-- [refusal]
           CASE WHEN moments.t IN (SELECT t FROM outdated) THEN 'outdated' END,
