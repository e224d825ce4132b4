"""The monitoring of a server over HTTP: a page at `/` (server/page.py), `/metrics` for Prometheus, and `/healthz`.

One process of the server's answers (answers), so that nothing that a client does can hold up the postmaster. Numbers
are collected (collect) by threads of it when somebody asks, and each minute for the page's curves: an answer waits a
moment for fresh ones and then takes the last that there are, however long a locked catalog or a publisher keeps a
thread waiting.

exposition  families of samples, and their text in Prometheus' format 0.0.4
collect     the numbers: of the server, the catalog, the publishers
answers     which path is answered by what; the collecting threads
process     the process, and the answers while the server is still loading
"""
