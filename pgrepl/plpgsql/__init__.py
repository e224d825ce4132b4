"""PL/pgSQL: the language of functions, procedures, triggers and DO.

    body     build                 the parser over grammar/plpgsql makes a tree of statements (nodes.py) with numbered
                                   variables (datums.py)
    tree     function, expr        each statement becomes a Python closure over a `Frame`, the variables' values: as
                                   in pl_exec.c, in exec_control, exec_sql, exec_errors
    call     function              frames, results, CONTEXT lines

SQL inside (`expr`, `sql`) is analysed with the variables as typed nodes (`expr/analyse/kinds.py`). An expression
without a table is compiled into a closure of its own; every other statement runs as the client's would.
"""
