"""CREATE, ALTER and DROP PUBLICATION (publicationcmds.c)."""
