"""Writers of one transaction in several processes.

Owns: the part of Kafka's protocol that librdkafka does not hand out: a transaction whose producer
id and epoch can be read, and rows written under them by whoever has the ticket.
Entry: transactions.py (the driver's transactions, which it lends), coordinator.py (begins and
ends), writer.py (writes), sealed.py (rows put together for the driver), features.py (what is needed
for it).
May import: what connectors.kafka may, google_crc32c and numpy.
Must not: read rows, or decide what a failed transaction means.
"""
