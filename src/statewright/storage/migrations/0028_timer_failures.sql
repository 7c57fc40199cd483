-- Fires of a timer that failed since it was armed; as many as STATEWRIGHT_SCHEDULER_MAX_ATTEMPTS park it.
ALTER TABLE scheduled_task ADD COLUMN failures integer NOT NULL DEFAULT 0;
