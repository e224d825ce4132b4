"""Roles and what they may do: roles and their members, privileges, what a role owns; databases and schemas (user.c,
aclchk.c, dbcommands.c)."""
