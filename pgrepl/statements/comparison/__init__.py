"""The comparison of two databases' definitions: the statements that bring the one to what the other is (`pgrepl plan`,
`diff`).

`definition` says what is compared of an object. `relations`, `columns`, `types`, `routines`, `replication` and
`shared` read it from a session; each fact of an object comes with the statement that makes it and the one that takes
it back, so that `changes` needs no knowledge of kinds. `declared` makes what a file declares, in a rehearsal, and knows
what it names.

Rule: nothing is dropped unless that is asked for; what cannot be altered is an error that names it.
"""
