"""What a subscriber does with messages: find the table, find the row, change it as PostgreSQL's apply worker would.

`target` is a published table seen from here, `progress` what an error says about where it happened, `play` plays
messages one after the other on the rows they concern. Nothing is written before a batch has been played to its end.
"""
