"""The shell: psql's prompt, scripts, backslash commands, `\\d`, and output formats; and the subcommands of pgrepl.

`startup` reads the command line and begins; `shell` is what a running shell knows, `connection` its session. backslash/
has the commands, but `\\d`, which is in describe/; scripts/ and prompt/ bring the lines, formats/ draws the tables;
commands/ has `pgrepl apply` and the other subcommands.

Rule of the room: it runs statements through a session (`statements.run`), describes by the catalog's look-ups, says
everything in psql's words, and prints the bytes that psql prints. Nothing heavy is imported before it is needed: a
script does not load the prompt.
"""
