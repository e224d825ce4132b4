"""ALTER TABLE over the rows that are there: what is required of them is looked at, and they are written anew
(`phase3` begins: ATRewriteTables)."""
