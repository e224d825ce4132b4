"""What defines the objects of a database: the statements that make them (`pgrepl dump`), and those that bring one
database to what another is (`pgrepl plan`, `diff`).

`definition` says what there is of an object: facts, each with the statement that makes it and the one that takes it
back; and what comes before what. `relations`, `routines`, `shared` and `replication` read them from a session, with
words of `naming`. `changes` dumps and compares them; `declared` makes what a file declares, in a rehearsal.

Rule of the room: nothing is dropped unless that is asked for; what cannot be altered is an error that names it.
"""
