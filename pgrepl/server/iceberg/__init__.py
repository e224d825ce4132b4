"""Iceberg's REST catalog over the server's tables, read-only: `pgrepl serve --iceberg PORT`.

What is answered is made from one read transaction of the catalog, when it is asked for; nothing is kept, so that
nothing can be out of step. It is a process of its own, so that its work disturbs no session, and no commit waits.

access    who asks: tokens for passwords, and the rules of pg_hba.conf for each request
routes    what a path means, and its answer
storage   what readers are told of an object store, and the credentials that they get
process   the process: threads with sessions, behind a server of HTTP
"""
