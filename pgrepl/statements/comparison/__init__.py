"""The comparison of two databases' definitions: the statements that bring the one to what the other is (`pgrepl plan`,
`diff`).

`definition` says what is compared of an object: facts, each with the statement that makes it and the one that takes
it back. `relations`, `routines` and `shared` read them from a session, `replicated` what matters to a subscription;
`changes` puts statements in order; `declared` makes what a file declares, in a rehearsal.

Rule of the room: nothing is dropped unless that is asked for; what cannot be altered is an error that names it.
"""
