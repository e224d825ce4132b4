"""A query executed in this process, row by row, as PostgreSQL does.

| module | what it does |
| --- | --- |
| `select` | a query, compiled once and run as often as the queries around it need; begin here |
| `env`, `evaluator` | the environment of a running expression; the expressions of one query, compiled |
| `pull_up` | subqueries and views of a query over system catalogs, merged |
| `join_plan`, `joins`, `hash_joins`, `scans` | FROM: the plans of joins, their order, how they run |
| `grouping`, `windows` | groups and window functions |
| `with_queries` | WITH, UNION, INTERSECT, EXCEPT |
| `sublinks` | EXISTS, IN, ANY, ALL, scalar subqueries |
| `row_locks` | FOR UPDATE and the other locking clauses |

A subquery is compiled through `Evaluator`, which `select` fills in: so no module imports one above it.
"""
