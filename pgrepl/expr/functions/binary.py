"""bytea and bit strings: slices, concatenation, encodings, digests, checksums, conversion to other bases."""

from __future__ import annotations

import base64
import hashlib
import operator
import zlib
from collections.abc import Callable
from typing import AnyStr

from pgrepl.expr.functions.arithmetic import integer_out_of_range
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.functions.strings import btrim, ltrim, rtrim
from pgrepl.ground.errors import PgError
from pgrepl.types import input_checks
from pgrepl.types.input_checks import (
    SQL_ASCII,
    UTF8,
    bytes_to_text,
    codec,
    encoding_name,
    text_to_bytes,
    untranslatable,
)
from pgrepl.types.plain import read_escaped, unhex

implements = Family()

# --------------------------------------------------------------------------------------------------------------- bytea


@implements("byteacat")
def byteacat(one: bytes, two: bytes) -> bytes:
    input_checks.check_request(len(one) + len(two) + input_checks.HEADER)
    return one + two


implements("byteaoctetlen", columns="binary_length", spark="octet_length({})")(len)
implements("bit_length(bytea)")(lambda value: 8 * len(value))
implements("bytea_substr_no_len", "bitsubstr_no_len")(lambda value, start: value[max(start, 1) - 1 :])


@implements("bytea_substr", "bitsubstr")
def substring(value: AnyStr, start: int, length: int) -> AnyStr:
    if length < 0:
        raise _negative_length()
    return value[max(start, 1) - 1 : max(start + length - 1, 0)]


def _negative_length() -> PgError:
    return PgError("22011", "negative substring length not allowed")


@implements("byteaoverlay", "bitoverlay")
def overlay(value: AnyStr, new: AnyStr, start: int, length: int) -> AnyStr:
    if start <= 0:
        raise _negative_length()
    return value[: start - 1] + new + value[max(start - 1 + length, 0) :]


implements("byteaoverlay_no_len", "bitoverlay_no_len")(lambda value, new, start: overlay(value, new, start, len(new)))
implements("byteapos")(lambda value, part: value.find(part) + 1)
implements("byteatrim")(btrim)
implements("bytealtrim")(ltrim)
implements("byteartrim")(rtrim)


def _index(index: int, size: int) -> int:
    if not 0 <= index < size:
        raise PgError("2202E", f"index {index} out of valid range, 0..{size - 1}")
    return index


implements("byteaGetByte")(lambda value, index: value[_index(index, len(value))])


@implements("byteaSetByte")
def set_byte(value: bytes, index: int, new: int) -> bytes:
    _index(index, len(value))
    return value[:index] + bytes([new & 0xFF]) + value[index + 1 :]


@implements("byteaGetBit")
def get_bit(value: bytes, index: int) -> int:
    _index(index, 8 * len(value))
    return value[index // 8] >> index % 8 & 1


@implements("byteaSetBit")
def set_bit(value: bytes, index: int, new: int) -> bytes:
    _index(index, 8 * len(value))
    if new not in (0, 1):
        raise PgError("22023", "new bit must be 0 or 1")
    byte = value[index // 8] & ~(1 << index % 8) | new << index % 8
    return value[: index // 8] + bytes([byte]) + value[index // 8 + 1 :]


implements("bytea_bit_count")(lambda value: bin(int.from_bytes(value, "big")).count("1"))
implements("bytea_reverse")(lambda value: value[::-1])


def _as_bytes(size: int) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(size, "big", signed=True)


def _as_integer(size: int) -> Callable[[bytes], int]:
    def compute(value: bytes) -> int:
        if len(value) > size:
            raise integer_out_of_range(8 * size)
        return int.from_bytes(value, "big", signed=len(value) == size)

    return compute


for _size in (2, 4, 8):
    implements(f"int{_size}_bytea")(_as_bytes(_size))
    implements(f"bytea_int{_size}")(_as_integer(_size))


# ----------------------------------------------------------------------------------------------------------- encodings


@implements("binary_encode")
def encode(value: bytes, form: str) -> str:
    name = form.lower()
    if (
        name in ("hex", "escape", "base64")
        and len(value) * {"hex": 2, "base64": 1.35}.get(name, 1) > input_checks.MAX_BYTES
    ):
        raise PgError("54000", "result of encoding conversion is too large")
    if name == "hex":
        return value.hex()
    if name == "base64":
        text = base64.b64encode(value).decode("ascii")
        return "\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    if name == "escape":
        return "".join(_escaped(byte) for byte in value)
    raise PgError("22023", f'unrecognized encoding: "{form}"')


def _escaped(byte: int) -> str:
    if byte == 0 or byte > 127:
        return f"\\{byte:03o}"
    return "\\\\" if byte == 92 else chr(byte)


@implements("binary_decode")
def decode(text: str, form: str) -> bytes:
    name = form.lower()
    if name == "hex":
        return unhex(text)
    if name == "base64":
        return _decode_base64(text)
    if name == "escape":
        return read_escaped(text)
    raise PgError("22023", f'unrecognized encoding: "{form}"')


_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _decode_base64(text: str) -> bytes:
    """Decode base64 as pg_base64_decode does."""
    out = bytearray()
    buffer = position = padding = 0
    for char in text:
        if char in " \t\n\r":
            continue
        if char == "=":
            if not padding:
                if position == 2:
                    padding = 1
                elif position == 3:
                    padding = 2
                else:
                    raise PgError("22023", 'unexpected "=" while decoding base64 sequence')
            value = 0
        else:
            value = _BASE64.find(char)
            if value < 0:
                raise PgError("22023", f'invalid symbol "{char}" found while decoding base64 sequence')
        buffer = buffer << 6 | value
        position += 1
        if position == 4:
            group = buffer.to_bytes(3, "big")
            out += group[:1] if padding == 1 else group[:2] if padding == 2 else group
            buffer = position = 0
    if position:
        raise PgError(
            "22023",
            "invalid base64 end sequence",
            hint="Input data is missing padding, is truncated, or is otherwise corrupted.",
        )
    return bytes(out)


def _named(name: str, what: str) -> str:
    encoding = encoding_name(name)
    if encoding is None:
        raise PgError("22023", f'invalid {what} name "{name}"')
    return encoding


implements("pg_convert_from")(lambda value, source: bytes_to_text(value, _named(source, "source encoding")))
implements("pg_convert_to")(lambda text, target: text_to_bytes(text, _named(target, "destination encoding")))


@implements("pg_convert")
def convert(value: bytes, source: str, target: str) -> bytes:
    """As pg_convert does: most pairs of character sets without UTF8 have no conversion."""
    here, there = _named(source, "source encoding"), _named(target, "destination encoding")
    text = bytes_to_text(value, here)
    if here == there or SQL_ASCII in (here, there):
        return value
    if UTF8 not in (here, there) and not any({here, there} <= pair for pair in _DIRECT):
        raise PgError("42883", f'default conversion function for encoding "{here}" to "{there}" does not exist')
    try:
        return text_to_bytes(text, there)
    except PgError as error:
        if here == UTF8 or error.sqlstate != "22P05":
            raise
        bad = next(char for char in text if not _has(there, char))
        raise untranslatable(text_to_bytes(bad, here), here, there) from None


# Character sets that PostgreSQL converts into each other directly (pg_conversion)
_DIRECT = (
    frozenset(("KOI8R", "WIN1251", "WIN866", "ISO_8859_5")), frozenset(("LATIN2", "WIN1250")),
    frozenset(("EUC_JP", "SJIS")), frozenset(("EUC_JIS_2004", "SHIFT_JIS_2004")),
)  # fmt: skip


def _has(encoding: str, char: str) -> bool:
    try:
        char.encode(codec(encoding))
    except UnicodeEncodeError:
        return False
    return True


@implements("length_in_encoding")
def length_in_encoding(value: bytes, source: str) -> int:
    """The number of characters; SQL_ASCII has one for each byte."""
    encoding = _named(source, "encoding")
    return len(value) if encoding == SQL_ASCII else len(bytes_to_text(value, encoding))


# ------------------------------------------------------------------------------------------------------------- digests


@implements("md5_text", spark="md5(CAST({} AS BINARY))")
def md5_text(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


implements("md5_bytea", spark="md5({})")(lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest())


def _digest(name: str) -> Callable[[bytes], bytes]:
    return lambda value: hashlib.new(name, value).digest()


for _name in ("sha224", "sha256", "sha384", "sha512"):
    implements(f"{_name}_bytea")(_digest(_name))


implements("crc32_bytea")(zlib.crc32)


@implements("crc32c_bytea")
def crc32c(value: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in value:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _in_base(bits: int, form: str) -> Callable[[int], str]:
    return lambda value: format(value & (1 << bits) - 1, form)


for _bits in (32, 64):
    implements(f"to_hex{_bits}")(_in_base(_bits, "x"))
    implements(f"to_oct{_bits}")(_in_base(_bits, "o"))
    implements(f"to_bin{_bits}")(_in_base(_bits, "b"))


# --------------------------------------------------------------------------------------------------------- bit strings


def _bitwise(name: str, word: str, function: Callable[[int, int], int]) -> None:
    def compute(one: str, two: str) -> str:
        if len(one) != len(two):
            raise PgError("22026", f"cannot {word} bit strings of different sizes")
        return f"{function(int(one, 2), int(two, 2)):0{len(one)}b}" if one else ""

    implements(name)(compute)


_bitwise("bit_and", "AND", operator.and_)
_bitwise("bit_or", "OR", operator.or_)
_bitwise("bitxor", "XOR", operator.xor)


implements("bitnot")(lambda bits: bits.translate({48: 49, 49: 48}))


@implements("bitshiftleft")
def bitshiftleft(bits: str, count: int) -> str:
    if count < 0:
        return bitshiftright(bits, -count)
    return bits[count:].ljust(len(bits), "0")


@implements("bitshiftright")
def bitshiftright(bits: str, count: int) -> str:
    if count < 0:
        return bitshiftleft(bits, -count)
    return bits[: max(len(bits) - count, 0)].rjust(len(bits), "0")


implements("bitcat")(lambda one, two: one + two)
implements("bitlength", "bit_length(bit)")(len)
implements("bitoctetlength")(lambda bits: (len(bits) + 7) // 8)
implements("bit_bit_count")(lambda bits: bits.count("1"))
implements("bitposition")(lambda bits, part: bits.find(part) + 1 if bits else 0)


@implements("bitgetbit")
def bitgetbit(bits: str, index: int) -> int:
    if not 0 <= index < len(bits):
        raise PgError("2202E", f"bit index {index} out of valid range (0..{len(bits) - 1})")
    return int(bits[index])


@implements("bitsetbit")
def bitsetbit(bits: str, index: int, new: int) -> str:
    bitgetbit(bits, index)  # the index is checked first
    if new not in (0, 1):
        raise PgError("22023", "new bit must be 0 or 1")
    return bits[:index] + str(new) + bits[index + 1 :]
