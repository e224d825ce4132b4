"""What changed in a table between two snapshots, paired by row id, and the history of snapshots: what logical
replication and change feeds read."""
