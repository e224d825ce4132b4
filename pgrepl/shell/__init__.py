"""What a person sees: the prompt, scripts, backslash commands, `\\d`, and psql's output formats.

Rule of the room: it speaks to the catalog only through a session (`statements.run`), says everything in psql's words,
and prints the bytes psql prints. Nothing heavy is imported before it is needed: a script never pays for the prompt.
"""
