-- Parts of instances that their documents leave out: the results of long iterations. They are never changed, so the versions
-- of an instance share them, and go when the instance is removed.
CREATE TABLE process_part (
    tenant   text NOT NULL,
    instance uuid NOT NULL,
    name     text NOT NULL,
    value    json NOT NULL,
    PRIMARY KEY (tenant, instance, name)
);
