"""Typed trees over whole Arrow columns, with exactly the results of the evaluator.

    program = program_of(expr, context)         # plain data for an executor; None: the expression needs the session
    test = program.test(forms)                  # on the executor: compiled once
    mask = test(columns, count)                 # which rows pass

Operations that Arrow computes as PostgreSQL does are computed by columns: comparisons, AND, OR and NOT in three-valued
logic, IS NULL, IN, arithmetic, texts, CASE. Other conditions are evaluated row by row, for the rows that the conditions
before them leave, and of documents those that may pass. A batch in which Arrow finds an error (overflow, division
by zero) is evaluated row by row, too: PostgreSQL may not evaluate the failing operation for that row, and then there is
no error. Read compiler.py, comparisons.py, operations.py, values.py, program.py.
"""
