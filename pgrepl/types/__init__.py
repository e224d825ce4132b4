"""PostgreSQL's types: the built-in catalog rows (`builtin`), type names (`names`), and input and output functions
(`text`, one module for each family); character sets (`input_checks`), characters of Unicode (`unicode`).

Rule of the room: values are plain Python objects. It imports nothing of pgrepl but `ground`: it knows no catalog and
no query.
"""

import sys

# A numeric has up to 147,455 digits, and a literal may have more; Python's default limit is 4,300.
if hasattr(sys, "set_int_max_str_digits"):  # Python 3.10.7 and later
    sys.set_int_max_str_digits(0)
