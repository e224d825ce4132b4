"""EXPLAIN (explain.c): the plan of a statement as nodes, and these as text, JSON, YAML or XML. Begin with `explain`."""
