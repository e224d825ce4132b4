"""Triggers: CREATE, ALTER and DROP TRIGGER, ALTER TABLE … ENABLE and DISABLE TRIGGER, and those of partitions.

When triggers fire, and what they do with rows, stands in `rows`. Rule of the room: a trigger FOR EACH ROW of a
partitioned table is a trigger of each partition, too; what is done to it is done to all of them.
"""
