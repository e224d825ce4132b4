"""Types whose input and output depend on the value only: numbers, strings, bits, bytea, uuid, json, pg_lsn,
pg_snapshot; and XML.

A char(n) value is padded to n characters, as PostgreSQL stores it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pyexpat import ExpatError, ParserCreate
from typing import Any, NamedTuple
from uuid import UUID

from pgrepl.ground.errors import PgError
from pgrepl.types import json, numbers, numeric, oids
from pgrepl.types.arrays import vector_of, write_vector
from pgrepl.types.input_checks import invalid_text
from pgrepl.types.style import TextStyle

_LSN = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})\Z")


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    match = _LSN.match(text)
    if match is None:
        raise invalid_text("pg_lsn", text)
    return int(match[1], 16) << 32 | int(match[2], 16)


# --- snapshots --------------------------------------------------------------------------------------------------------


_FORM = re.compile(r"(\d+):(\d+):(\d+(?:,\d+)*)?\Z")
_MOST = 2**64


class PgSnapshot(NamedTuple):
    """A snapshot: transactions before xmin have ended, those from xmax on have not begun; those in xip were running."""

    xmin: int
    xmax: int
    xip: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, self.xip))}"

    def sees(self, xid: int) -> bool:
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)


def parse_snapshot(text: str) -> PgSnapshot:
    """A snapshot from its text, as parse_snapshot reads it: numbers in ascending order, repeated ones dropped."""
    match = _FORM.match(text)
    if match is None:
        raise invalid_text("pg_snapshot", text)
    xmin, xmax = int(match[1]), int(match[2])
    running = [int(number) for number in match[3].split(",")] if match[3] else []
    ordered = running == sorted(running)
    inside = all(xmin <= number < xmax for number in running)
    if not 0 < xmin <= xmax < _MOST or not ordered or not inside:
        raise invalid_text("pg_snapshot", text)
    return PgSnapshot(xmin, xmax, tuple(dict.fromkeys(running)))


def read_snapshot(text: str) -> str:
    """The canonical text of a snapshot, which is its value."""
    return str(parse_snapshot(text))


# --- strings ----------------------------------------------------------------------------------------------------------


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
    match = _OCTAL.match(text)
    if match:
        return chr(int(match[1], 8) & 0xFF)
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
        match = _ESCAPE.match(encoded, at)
        if match is None:
            raise PgError("22P02", "invalid input syntax for type bytea")
        out += bytes([int(match[1], 8)]) if match[1] else b"\\" if match[2] else match[0]
        at = match.end()
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
        match = _HEX.match(text, at)
        if match is None:
            digit = text[at] if text[at] not in "0123456789abcdefABCDEF" else text[at + 1 : at + 2]
            if not digit:
                raise PgError("22023", "invalid hexadecimal data: odd number of digits")
            raise PgError("22023", f'invalid hexadecimal digit: "{digit}"')
        at = match.end()
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
    match = _UUID.match(text)
    if match is None:
        raise invalid_text("uuid", text)
    return match[2].replace("-", "")


# --- xml text ---------------------------------------------------------------------------------------------------------


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


# --- plain ------------------------------------------------------------------------------------------------------------


_TID = re.compile(r"[^(,)]*\(\s*([0-9]*),\s*([0-9]*)\)", re.ASCII)


def _read_tid(text: str, typmod: int, style: TextStyle) -> tuple[int, int]:
    """A tid as tidin reads it; text behind the parenthesis is ignored."""
    match = _TID.match(text)
    block, offset = (int(digits or 0) for digits in match.groups()) if match else (-1, -1)
    if not 0 <= block < 2**32 or not 0 <= offset < 2**16:
        raise invalid_text("tid", text)
    return block, offset


def _read_void(text: str, typmod: int, style: TextStyle) -> str:
    return ""


def _read_node_tree(text: str, typmod: int, style: TextStyle) -> str:
    raise PgError("0A000", "cannot accept a value of type pg_node_tree")


def _plain(read: Callable[[str], Any]) -> Callable[[str, int, TextStyle], Any]:
    return lambda text, typmod, style: read(text)


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {
    oids.BOOL: _plain(numbers.read_bool),
    oids.INT2: _plain(numbers.read_int2),
    oids.INT4: _plain(numbers.read_int4),
    oids.INT8: _plain(numbers.read_int8),
    oids.OID: _plain(numbers.read_oid),
    oids.XID: _plain(numbers.read_xid),
    oids.CID: _plain(numbers.read_cid),
    oids.XID8: _plain(numbers.read_xid8),
    oids.FLOAT4: _plain(numbers.read_float4),
    oids.FLOAT8: _plain(numbers.read_float8),
    oids.NUMERIC: lambda text, typmod, style: numeric.read_numeric(text, typmod),
    oids.TEXT: _plain(str),
    oids.UNKNOWN: _plain(str),
    oids.CSTRING: _plain(str),
    oids.REFCURSOR: _plain(str),
    oids.XML: _plain(str),
    oids.PG_SNAPSHOT: _plain(read_snapshot),
    oids.TXID_SNAPSHOT: _plain(read_snapshot),
    oids.PG_NODE_TREE: _read_node_tree,
    oids.VOID: _read_void,
    oids.VARCHAR: lambda text, typmod, style: read_varchar(text, typmod),
    oids.BPCHAR: lambda text, typmod, style: read_bpchar(text, typmod),
    oids.NAME: _plain(read_name),
    oids.CHAR: _plain(read_char),
    oids.BYTEA: _plain(read_bytea),
    oids.BIT: lambda text, typmod, style: read_bits(text, typmod, varying=False),
    oids.VARBIT: lambda text, typmod, style: read_bits(text, typmod, varying=True),
    oids.UUID: lambda text, typmod, style: UUID(uuid_digits(text)),
    oids.JSON: _plain(json.read_json),
    oids.JSONB: _plain(json.read_jsonb),
    oids.PG_LSN: _plain(parse_lsn),
    oids.TID: _read_tid,
    oids.OIDVECTOR: lambda text, typmod, style: vector_of(oids.OID, numbers.read_oids(text)),
    oids.INT2VECTOR: lambda text, typmod, style: vector_of(oids.INT2, numbers.read_shorts(text)),
}

WRITE: dict[int, Callable[[Any, TextStyle], str]] = {
    oids.BOOL: lambda value, style: "t" if value else "f",
    oids.FLOAT4: numbers.write_float4,
    oids.FLOAT8: numbers.write_float8,
    oids.NUMERIC: lambda value, style: numeric.write_numeric(value),
    oids.CHAR: lambda value, style: write_char(value),
    oids.BYTEA: lambda value, style: write_bytea(value, style.bytea_output),
    oids.PG_LSN: lambda value, style: lsn_text(value),
    oids.TID: lambda value, style: f"({value[0]},{value[1]})",
    oids.OIDVECTOR: lambda value, style: write_vector(value),
    oids.INT2VECTOR: lambda value, style: write_vector(value),
    oids.VOID: lambda value, style: "",
}
