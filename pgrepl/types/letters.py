"""The letters of names as regular expression classes; every non-ASCII character counts as a letter.

Each is the complement of the ASCII characters it excludes; a range up to U+10FFFF would take milliseconds to compile.
"""

from __future__ import annotations

LETTER = r"[^\x00-@\[-^`{-\x7f]"
LETTER_OR_DIGIT = r"[^\x00-/:-@\[-^`{-\x7f]"
NAME_PART = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
"""A letter, a digit or a dollar sign."""
