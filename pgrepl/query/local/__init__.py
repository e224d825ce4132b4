"""A query played in this process, row by row, as PostgreSQL does.

| module | what it does |
| --- | --- |
| `execute` | a query, compiled once and played as often as its surroundings ask; begin here |
| `env`, `evaluator` | what an expression sees while it runs; the expressions of one query, compiled |
| `with_queries`, `dependence` | WITH and WITH RECURSIVE; on which rows around it a query depends |
| `select` | a plain SELECT: `scans` and `joins`, `grouping`, `windows`, `target_sets`, then `finish` |
| `setops` | UNION, INTERSECT, EXCEPT |
| `sublinks` | EXISTS, IN, ANY, ALL, scalar subqueries |
| `row_locks` | FOR UPDATE and its kin |

A query inside a query is played through `Evaluator`, which `execute` fills in: so no module needs one above it.
"""
