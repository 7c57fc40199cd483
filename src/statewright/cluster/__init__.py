"""Service processes on one database as one service (spec/grpc.md §20–§24).

Every process is a node. It publishes in PostgreSQL that it lives and which calculation members are connected to it
(``presence``), and keeps the same of all others in memory (``picture``), so that choosing a member asks nobody. Over a
private gRPC channel (``channels``, ``doors``) nodes bring callouts to each other's members (``forwarding``), and
requests with a transaction token to the node that owns the transaction (``relay``). There is no coordinator: what must
happen once is claimed in the database by whoever comes first.
"""
