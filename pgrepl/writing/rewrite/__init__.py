"""ALTER TABLE over the rows that are there: what it asks of them, and writing them anew (ATRewriteTable)."""
