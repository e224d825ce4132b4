"""Replication connections (`replication=database`): commands of the streaming replication protocol (walsender.c).

grammar   tells a command from SQL, and reads it (repl_gram.y)
commands  CREATE_, ALTER_, READ_ and DROP_REPLICATION_SLOT, IDENTIFY_SYSTEM, SHOW
sender    START_REPLICATION: a slot's changes as they are committed, and what the subscriber says of them
"""
