"""The parts of libraries that pgrepl uses and that they do not document for their users: one module for each library,
so that a new version of it is looked at in one place. tests/house/test_internals.py names what each relies on.

Lark's is sql/make_tables.py, which runs only when the package is built.
"""
