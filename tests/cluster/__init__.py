"""A cluster of hosts on one machine: each is a network, a disk and processes of its own.

Entry: rig.py (Cluster, Host). Nothing is left behind, however a run ends: the first process of each
host ends when the run's end of a pipe does, and the kernel takes what lived in the host with it.
"""
