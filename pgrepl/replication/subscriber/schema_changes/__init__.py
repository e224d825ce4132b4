"""Changes of the publisher's definitions arrive here, too (the subscription parameter schema_changes).

Before the first message of a relation that the stream describes otherwise than it was followed last, the table here
gets the same columns. columns.py says which statements follow; follow.py carries them out. A subscription without the
parameter enters none of this.
"""
