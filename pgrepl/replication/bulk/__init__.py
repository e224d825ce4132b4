"""Large copies and large batches: rows are moved by Spark, or as whole columns; keys are judged as whole columns.

| module | what it is |
| --- | --- |
| `batch` | what a publisher gives in bulk: the contract of both publishers |
| `lake_rows` | the published rows of a lake's table |
| `sending` | the same from a lake: pgoutput's decisions over whole columns |
| `convert` | sent columns as the target's columns, in Spark |
| `copy` | an initial copy |
| `fold` | what the messages of one table come to, key by key, and whether they are clean |
| `keys` | keys as numbers, and where the table has them |
| `key_values` | which values of a key are equal |
| `other_keys` | unique indexes besides the one that rows are found by |
| `table` | the messages for one table: decided, staged |
| `unchanged` | values that an UPDATE did not send |
| `partitions` | the messages for a partitioned table by its leaves |
| `columns` | new rows that are as they were sent, written by columns |
| `apply` | a batch: fold, find places, stage, one commit |
| `size` | whether it is worth it |

The rule of the room: what it cannot do exactly as PostgreSQL does it leaves undone and says so with None; the exact way
(replication/applying) then does it row by row, and finds the first row that is wrong.
"""
