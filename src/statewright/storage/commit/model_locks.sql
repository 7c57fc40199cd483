-- Models of new entities (storage/commit/statement.py).
--
-- lost       what makes a transaction fail: new entities whose model is not locked any more as it was when they were judged. The function keeps
--            the models locked from then on, and looks with a snapshot that is newer than this statement's (docs/adr/0008). Such a transaction
--            has no moment, and its filter says so in a way that leaves the planner its estimates: IS NULL would make it expect next to no rows

-- [reads]
lost AS MATERIALIZED (
    SELECT model_locks_lost($model_locks::jsonb) AS reasons
),

-- [moment]
                WHEN (SELECT reasons FROM lost) ? staged.t::text THEN NULL

-- [conditions]
       AND at IS NOT NULL

-- [refusal]
           (SELECT reasons FROM lost) ->> moments.t::text,
