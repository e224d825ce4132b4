"""PostgreSQL's types: the built-in catalog rows (`builtin`), type names (`names`), and input and output functions
(`text`, one module for each family).

Rule of the room: it stands on nothing but `errors`. Values are plain Python objects; nothing here knows a catalog or a
query.
"""

import sys

# A numeric has up to 147,455 digits, and anybody can type more: Python's own limit of 4,300 guards servers, no prompt.
if hasattr(sys, "set_int_max_str_digits"):  # Python 3.10.7 and later
    sys.set_int_max_str_digits(0)
