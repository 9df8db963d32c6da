"""Reading stores from outside of the topology: snapshots, and handles that read the newest epoch.

Owns what a reader sees: one committed epoch over all lanes and stores. Start with `queries.py`.
Where a snapshot comes from is a port (`source.py`), which a running application, the test driver
and others implement. May import plan and the rooms below it; must not know who implements the port,
write anything, or take a lock that a pipeline waits for.
"""
