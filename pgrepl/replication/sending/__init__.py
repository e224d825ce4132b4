"""What a publisher sends: the decisions of pgoutput.c, for each change by the catalog as it was at that change.

`plan` decides for one table of one snapshot: which operations, which filters, which columns, in whose name. `wire`
makes messages of changes by such plans. Nothing here writes.
"""
