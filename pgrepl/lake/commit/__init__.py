"""The commit: what a transaction keeps pending, the catalog's rows about it, and prepared transactions. All of a
transaction becomes visible in one SQL transaction of the catalog."""
