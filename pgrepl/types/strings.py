"""Input and output of string types, "char", name, bit strings and bytea.

A char(n) value is padded to n characters, as PostgreSQL stores it.
"""

from __future__ import annotations

import re

from pgrepl.errors import PgError
from pgrepl.types.errors import invalid_text

NAME_BYTES = 63


def read_varchar(text: str, typmod: int = -1) -> str:
    """A varchar(n) as varchar_input reads it: excess characters must be spaces."""
    most = typmod - 4
    if typmod < 4 or len(text) <= most:
        return text
    if text[most:].strip(" "):
        raise PgError("22001", f"value too long for type character varying({most})")
    return text[:most]


def read_bpchar(text: str, typmod: int = -1) -> str:
    """A char(n) as bpchar_input reads it: padded, excess characters must be spaces."""
    length = typmod - 4
    if typmod < 4:
        return text
    if len(text) <= length:
        return text.ljust(length)
    if text[length:].strip(" "):
        raise PgError("22001", f"value too long for type character({length})")
    return text[:length]


def read_name(text: str) -> str:
    return truncate_name(text)


def truncate_name(text: str) -> str:
    """A name of at most 63 bytes, truncated at a character's edge."""
    if len(text) <= NAME_BYTES // 4:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= NAME_BYTES:
        return text
    return encoded[:NAME_BYTES].decode("utf-8", "ignore")


_OCTAL = re.compile(r"\\([0-7]{3})\Z")


def read_char(text: str) -> str:
    """As charin does: one byte, kept as the character of that number."""
    found = _OCTAL.match(text)
    if found:
        return chr(int(found[1], 8) & 0xFF)
    return chr(text.encode()[0]) if text else "\0"


def write_char(value: str) -> str:
    if value == "\0":
        return ""
    return f"\\{ord(value):03o}" if ord(value) > 127 else value


_HEX = re.compile(r"[0-9a-fA-F]{2}|[ \n\t\r]")
_ESCAPE = re.compile(rb"\\(?:([0-3][0-7][0-7])|(\\))|[^\\]")


def read_bytea(text: str) -> bytes:
    """As byteain does: hex (`\\x…`) or escape format."""
    return unhex(text[2:]) if text.startswith("\\x") else read_escaped(text)


def read_escaped(text: str) -> bytes:
    """`a\\001\\\\`: octal escapes and doubled backslashes."""
    out = bytearray()
    encoded = text.encode()
    at = 0
    while at < len(encoded):
        found = _ESCAPE.match(encoded, at)
        if found is None:
            raise PgError("22P02", "invalid input syntax for type bytea")
        out += bytes([int(found[1], 8)]) if found[1] else b"\\" if found[2] else found[0]
        at = found.end()
    return bytes(out)


def unhex(text: str) -> bytes:
    """Hexadecimal digits in pairs, white space between the pairs, as hex_decode does."""
    try:
        if not text.isascii() or "\v" in text or "\f" in text:
            raise ValueError
        return bytes.fromhex(text)
    except ValueError:
        pass
    at = 0
    while at < len(text):
        found = _HEX.match(text, at)
        if found is None:
            digit = text[at] if text[at] not in "0123456789abcdefABCDEF" else text[at + 1 : at + 2]
            if not digit:
                raise PgError("22023", "invalid hexadecimal data: odd number of digits")
            raise PgError("22023", f'invalid hexadecimal digit: "{digit}"')
        at = found.end()
    raise AssertionError("bytes.fromhex takes what is right")


def write_bytea(value: bytes, output: str = "hex") -> str:
    if output == "hex":
        return "\\x" + value.hex()
    return "".join("\\\\" if b == 92 else chr(b) if 32 <= b <= 126 else f"\\{b:03o}" for b in value)


def read_bits(text: str, typmod: int, *, varying: bool) -> str:
    """The digits of a bit string (101, b101 or x1F); as in bit_in and varbit_in, its length is checked first."""
    hexadecimal = text[:1] in ("x", "X")
    digits = text[1:] if text[:1] in ("x", "X", "b", "B") else text
    size = len(digits.encode())
    fit_bits("0" * (4 * size if hexadecimal else size), typmod, varying=varying)
    if hexadecimal:
        return _binary_of_hex(digits)
    for digit in digits:
        if digit not in "01":
            raise PgError("22P02", f'"{digit}" is not a valid binary digit')
    return digits


def _binary_of_hex(text: str) -> str:
    for digit in text:
        if digit not in "0123456789abcdefABCDEF":
            raise PgError("22P02", f'"{digit}" is not a valid hexadecimal digit')
    return f"{int(text, 16):0{4 * len(text)}b}" if text else ""


def fit_bits(digits: str, typmod: int, *, varying: bool) -> str:
    if typmod <= 0:
        return digits
    if varying and len(digits) > typmod:
        raise PgError("22001", f"bit string too long for type bit varying({typmod})")
    if not varying and len(digits) != typmod:
        raise PgError("22026", f"bit string length {len(digits)} does not match type bit({typmod})")
    return digits


_UUID = re.compile(r"(\{)?([0-9a-fA-F]{4}(?:-?[0-9a-fA-F]{4}){7})(?(1)\})\Z")


def uuid_digits(text: str) -> str:
    """The 32 digits of a uuid: hyphens may stand behind any group of four, braces around."""
    found = _UUID.match(text)
    if found is None:
        raise invalid_text("uuid", text)
    return found[2].replace("-", "")
