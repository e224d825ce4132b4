"""CREATE, ALTER and DROP OPERATOR (operatorcmds.c, pg_operator.c)."""
