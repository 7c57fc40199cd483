-- Searches are planned by statistics, and a model that was just loaded is a small part of a large table: by default it
-- would have to be a tenth of it to be noticed.
ALTER TABLE entity SET (autovacuum_analyze_scale_factor = 0.02);
