r"""COPY: rows from files and to files.

`copy_from` and `copy_to` carry out the statement, and choose its engine. From bytes to rows (`encoding`, `lines`,
`fields`, `reader`) and back (`writer`), as PostgreSQL's COPY reads and writes text and CSV; `copy_options` reads the
options.
"""
