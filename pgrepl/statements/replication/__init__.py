"""CREATE, ALTER and DROP of publications and subscriptions (publicationcmds.c, subscriptioncmds.c)."""
