"""Typed trees over whole Arrow columns, with exactly the results of the evaluator.

    program = program_of(expr, context)         # plain data that travels to an executor; None: it needs the session
    test = program.test(forms)                  # there: compiled once
    mask = test(columns, count)                 # which rows pass

What Arrow means as PostgreSQL does is computed by columns: comparisons, AND, OR and NOT in three-valued logic, IS NULL,
IN, arithmetic of whole numbers with its overflows. What is not among these is evaluated row by row, for the rows that
the conditions before it leave. So is a portion of rows in which Arrow finds an error (overflow, division by zero):
where PostgreSQL would not have come so far there is none. Read compiler.py, comparisons.py, operations.py,
values.py, program.py.
"""
