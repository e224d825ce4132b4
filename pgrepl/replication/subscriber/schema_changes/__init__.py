"""Changes of the publisher's definitions arrive here, too (the subscription parameter schema_changes).

A relation that the stream describes otherwise than it was followed last is the moment: before the first of its new
messages is applied, the table here gets the same columns. known.py remembers what was followed, in the commit that
follows it; attnums.py finds out which column is which; columns.py says which statements follow; follow.py carries them
out; new_tables.py adds tables that are newly published. A subscription without the parameter enters none of this.
"""
