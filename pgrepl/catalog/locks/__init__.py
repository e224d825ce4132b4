"""The locks of an instance's sessions, in a small database beside the catalog (lmgr, lock.c), and what sessions leave
there for each other: notifications and exported snapshots (async.c, snapmgr.c)."""
