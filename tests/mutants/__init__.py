"""Mutants: small changes to code that decides, each of which a test of the usual run has to notice (make mutants)."""
