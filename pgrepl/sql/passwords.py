"""Whether a statement may hold a password: then it is kept in no history and shown in no log. In doubt it does.

The time is proportional to the text's length, whatever a client has sent.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
_LINE_COMMENT = re.compile(r"--[^\n]*")
# PASSWORD 'x', password=x, "password" 'x', sslpassword=x, PGPASSWORD=x, password: x; not PASSWORD NULL
_PASSWORD = re.compile(r"password[\"']?\s*(?:[=:,]|e?'|u&'|\$|\\|\s(?!required\b|null\b|encryption\b))", re.IGNORECASE)
# a connection string that is escaped, concatenated or a variable, so that a password in it is not seen
_CONNECTION = re.compile(r"\bconnection\b", re.IGNORECASE)
_DISGUISE = re.compile(r"\be'|\bu&'|\$\w*\$|\|\||:'|:[a-z_]", re.IGNORECASE)


def holds_password(statement: str) -> bool:
    """May the statement contain a password, also behind comments between words or percent signs in a URI?"""
    spellings = {statement, _without_comments(statement), unquote(statement)}
    if any(_PASSWORD.search(text) or _has_uri(text) for text in spellings):
        return True
    match = _CONNECTION.search(statement)
    return match is not None and _DISGUISE.search(statement, match.end()) is not None


def _without_comments(text: str) -> str:
    end = text.rfind("*/")  # a /* behind it is closed by none: each look for its end would read the whole text
    end = end + 2 if end >= 0 else 0
    return _COMMENT.sub(" ", text[:end]) + _LINE_COMMENT.sub(" ", text[end:])


def _has_uri(text: str) -> bool:
    """Is there a URI with a password, postgresql://user:x@host, or what looks like one?"""
    for word in text.split() if "://" in text else ():
        start = word.find("://") + 3
        colon = word.find(":", start) if start > 2 else -1
        if colon >= 0 and word.find("@", colon) >= 0:
            return True
    return False
