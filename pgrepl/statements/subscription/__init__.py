"""CREATE, ALTER and DROP SUBSCRIPTION (subscriptioncmds.c)."""

from pgrepl.statements.subscription import alter, create, drop, owner

__all__ = ["alter", "create", "drop", "owner"]
