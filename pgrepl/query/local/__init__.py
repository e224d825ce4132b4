"""A query executed in this process, row by row, as PostgreSQL does.

| module | what it does |
| --- | --- |
| `execute` | a query, compiled once and run as often as the queries around it need; begin here |
| `env`, `evaluator` | the environment of a running expression; the expressions of one query, compiled |
| `with_queries`, `dependence` | WITH and WITH RECURSIVE; on which outer rows a query depends |
| `pull_up`, `join_removal` | the query over system catalogs, its subqueries and views merged, useless joins left out |
| `select` | a plain SELECT: `scans` and `joins`, `grouping`, `windows`, `target_sets`, then `finish` |
| `join_plan`, `join_order`, `hash_joins` | the plans of joins, their order over system catalogs, how they run |
| `setops` | UNION, INTERSECT, EXCEPT |
| `sublinks` | EXISTS, IN, ANY, ALL, scalar subqueries |
| `row_locks` | FOR UPDATE and the other locking clauses |

A subquery is compiled through `Evaluator`, which `execute` fills in: so no module imports one above it.
"""
