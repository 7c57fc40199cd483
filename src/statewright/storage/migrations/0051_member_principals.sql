-- Who opened the stream of a member. Nodes of the version before this one do not tell.
ALTER TABLE cluster_member
    ADD COLUMN principal_id   text,
    ADD COLUMN principal_kind text;
