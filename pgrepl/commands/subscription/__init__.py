"""CREATE, ALTER and DROP SUBSCRIPTION (subscriptioncmds.c)."""

from pgrepl.commands.subscription import alter, create, drop, owner

__all__ = ["alter", "create", "drop", "owner"]
