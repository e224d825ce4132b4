"""Text in XML documents."""

from __future__ import annotations


def xml_text(text: str) -> str:
    """The text without characters that XML does not have."""
    return "".join(char if _is_allowed(char) else "\ufffd" for char in text)


def _is_allowed(char: str) -> bool:
    return char in "\t\n\r" or " " <= char < "\ud800" or "\ue000" <= char < "\ufffe" or char > "\uffff"
