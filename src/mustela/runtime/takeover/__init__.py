"""Takes over the state of a stopped Kafka Streams application.

Owns the match of its stores with a program's, and the first epoch that is made of them. Start
reading in `matching`. May import what the repairs may; must not change anything of the old one.
"""
