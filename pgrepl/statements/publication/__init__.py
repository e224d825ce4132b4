"""CREATE, ALTER and DROP PUBLICATION (publicationcmds.c)."""

from pgrepl.statements.publication import alter, create, drop

__all__ = ["alter", "create", "drop"]
