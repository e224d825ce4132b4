"""Functions and procedures of users: CREATE, ALTER, DROP, CALL, and how one is called.

`call` prepares a call for the evaluator (session.Hooks.routine): privileges, SECURITY DEFINER, SET clauses and the
depth of calls are checked there, for all languages alike.
"""
