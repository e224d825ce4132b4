"""CREATE, ALTER and DROP SUBSCRIPTION (subscriptioncmds.c)."""
