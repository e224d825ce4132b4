"""CREATE INDEX and what constraints need of indexes: definition, operator classes, copies for partitions.

An index here is a promise about rows (uniqueness) and a name; nothing is built.
"""
