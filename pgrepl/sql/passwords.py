"""Whether a statement may hold a password: then it is kept in no history and shown in no log. In doubt it does."""

from __future__ import annotations

import re
from urllib.parse import unquote

_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
# PASSWORD 'x', password=x, "password" 'x', sslpassword=x, PGPASSWORD=x, password: x; not PASSWORD NULL
_PASSWORD = re.compile(r"password[\"']?\s*(?:[=:,]|e?'|u&'|\$|\\|\s(?!required\b|null\b|encryption\b))", re.IGNORECASE)
# postgresql://user:x@host
_URI = re.compile(r"://[^\s/@]*:[^\s@]*@")
# a connection string that is escaped, concatenated or a variable, so that a password in it is not seen
_DISGUISED = re.compile(r"\bconnection\b.*?(?:\be'|\bu&'|\$\w*\$|\|\||:'|:[a-z_])", re.IGNORECASE | re.DOTALL)


def holds_password(statement: str) -> bool:
    """May the statement contain a password, also behind comments between words or percent signs in a URI?"""
    spellings = {statement, _COMMENT.sub(" ", statement), unquote(statement)}
    return any(_PASSWORD.search(text) or _URI.search(text) for text in spellings) or bool(_DISGUISED.search(statement))
