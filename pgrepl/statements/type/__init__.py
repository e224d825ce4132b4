"""CREATE, ALTER and DROP of enums, composite types and domains (typecmds.c)."""
