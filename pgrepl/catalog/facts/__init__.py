"""Look-ups in the system tables, one module a family of objects: roles and privileges, schemas, relations, types,
routines, sequences, triggers, publications, subscriptions, dependencies. Rule: rows in, facts out; nothing here
decides what a statement does."""
