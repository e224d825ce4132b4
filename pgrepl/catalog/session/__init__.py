"""A session over the catalog: its settings, its transaction and the numbers that it gives out, login, statistics.
`context` is the session as this room's look-ups see it."""
