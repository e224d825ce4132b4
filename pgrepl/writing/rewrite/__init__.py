"""ALTER TABLE over existing rows: they are checked and rewritten (begin with `phase3`: ATRewriteTables)."""
