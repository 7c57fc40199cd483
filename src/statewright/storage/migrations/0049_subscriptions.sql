-- Webhooks: who is told of events, and what became of that. Instants in microseconds of the epoch.
CREATE TABLE event_subscription (
    tenant           text    NOT NULL,
    id               uuid    NOT NULL,
    revision         integer NOT NULL DEFAULT 1,
    enabled          boolean NOT NULL,
    plan             text    NOT NULL,   -- JSON: what the operator has asked for, without the values of headers
    sealed           bytea   NOT NULL,   -- secrets and headers
    at               bigint  NOT NULL,   -- the position behind the last event that was read
    transaction_id   uuid    NOT NULL,
    entity           uuid    NOT NULL,
    failures         integer NOT NULL DEFAULT 0,   -- attempts in a row
    failing_since    bigint,
    disabled_reason  text,
    created_at       bigint  NOT NULL,
    created_by_id    text    NOT NULL,
    created_by_kind  text    NOT NULL,
    worker           text,
    lease_until      bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE event_delivery (
    tenant         text    NOT NULL,
    subscription   uuid    NOT NULL,
    at             bigint  NOT NULL,   -- with the next two: the position of the event
    transaction_id uuid    NOT NULL,
    entity         uuid    NOT NULL,
    id             uuid    NOT NULL,
    type           text    NOT NULL,
    status         text    NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'RETRYING', 'DELIVERED', 'DEAD')),
    attempt        integer NOT NULL DEFAULT 0,
    again          boolean NOT NULL DEFAULT false,
    tried_at       bigint  NOT NULL,   -- when it was last tried, or made
    next_at        bigint,
    http_status    integer,
    duration_ms    integer,
    error          text,
    answer         text,
    PRIMARY KEY (tenant, subscription, at, transaction_id, entity)
);
CREATE INDEX event_delivery_waiting ON event_delivery (tenant, subscription, at, transaction_id, entity)
    WHERE status IN ('PENDING', 'RETRYING');
CREATE INDEX event_delivery_ended ON event_delivery (tried_at) WHERE status IN ('DELIVERED', 'DEAD');

ALTER TABLE event_recording ADD COLUMN subscribed boolean NOT NULL DEFAULT false;   -- the tenant has subscriptions
