"""PostgreSQL's types: what the system knows from birth (`builtin`), how types are written (`names`), and the text form
of every value (`text`, one module a family).

Rule of the room: it stands on nothing but `errors`. Values are plain Python objects; nothing here knows a catalog or a
query.
"""
