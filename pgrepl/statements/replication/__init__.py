"""CREATE, ALTER and DROP of publications and subscriptions (publicationcmds.c, subscriptioncmds.c), and of the foreign
servers that subscriptions name.

The options of CREATE SUBSCRIPTION are in subscription_parts.py: CREATE and SET name them, SubscriptionOptions has
their defaults, _READERS reads them, OPTION_COLUMNS says in which column of pg_subscription each is kept.
CONTRIBUTING.md, "Add a parameter of a subscription", lists the modules outside of this room.
"""
