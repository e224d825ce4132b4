"""Test suites of others, played against `pgrepl serve` and compared with what is known to fail."""
