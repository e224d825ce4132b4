"""json, jsonb and jsonpath. A path is evaluated as jsonpath_exec.c does, on trees as `types.json` has them, with
`Moment` for dates and times.

Of paths read jsonpath_run.py (how an evaluation goes from step to step), then _steps and _moments.
"""
