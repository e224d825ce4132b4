"""XML: text in documents, and what a document is."""

from __future__ import annotations

import codecs
from pyexpat import ExpatError, ParserCreate

_DEPTH = 257  # of elements


def xml_text(text: str) -> str:
    """The text without characters that XML does not have."""
    return "".join(char if _is_allowed(char) else "\ufffd" for char in text)


def _is_allowed(char: str) -> bool:
    return char in "\t\n\r" or " " <= char < "\ud800" or "\ue000" <= char < "\ufffe" or char > "\uffff"


class _NoDocument(Exception):
    pass


class _Limits:
    """What libxml2 asks of a document besides."""

    def __init__(self) -> None:
        self._depth = 0

    def declare(self, version: str, encoding: str | None, standalone: int) -> None:
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise _NoDocument from None
        if not version.startswith("1."):
            raise _NoDocument

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _NoDocument

    def end(self, name: str) -> None:
        self._depth -= 1


def is_document(text: str) -> bool:
    """Is the text one well-formed document? Entities that grow without measure make it none; external ones are not
    read."""
    parser, limits = ParserCreate("UTF-8"), _Limits()
    parser.XmlDeclHandler = limits.declare
    parser.StartElementHandler, parser.EndElementHandler = limits.start, limits.end
    try:
        parser.Parse(text.encode(), True)
    except (ExpatError, _NoDocument):
        return False
    return True
