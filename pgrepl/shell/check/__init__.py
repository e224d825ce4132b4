"""`pgrepl check`: scripts are read as a shell reads them, and every error in them is told, with file, line and column.

`rehearsing` is the shell that reads them: its statements are rehearsed (statements/rehearsal), and backslash commands
with effects outside are withheld (`withheld`). `places` knows where in the files a query's characters stand; `findings`
are what was found, as text, for GitHub, as JSON and as JUnit's XML.
"""
