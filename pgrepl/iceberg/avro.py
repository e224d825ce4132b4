"""Avro files, of which Iceberg's manifests are: values in Avro's encoding, and the container around them.

A module of its own is faster than a general one: an entry of a manifest is put together from pieces that are encoded
once, and no dictionary is made for it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

NOTHING = b"\x00"  # of an optional value
_MAGIC = b"Obj\x01"


def _encoded(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


_SMALL = [_encoded(number) for number in range(8192)]


def number(value: int) -> bytes:
    """An int or a long."""
    return _SMALL[value] if 0 <= value < 8192 else _encoded(value)


def data(value: bytes) -> bytes:
    return number(len(value)) + value


def text(value: str) -> bytes:
    return data(value.encode("utf-8", "surrogatepass"))


def some(encoded: bytes) -> bytes:
    """An optional value that is there."""
    return b"\x02" + encoded


def some_number(value: int | None) -> bytes:
    return NOTHING if value is None else b"\x02" + number(value)


def array(items: Sequence[bytes]) -> bytes:
    return number(len(items)) + b"".join(items) + b"\x00" if items else b"\x00"


def container(schema: Mapping[str, Any], facts: Mapping[str, str], rows: Sequence[bytes]) -> bytes:
    """A file with records of the schema. Equal contents are equal files."""
    body = b"".join(rows)
    mark = hashlib.blake2b(body, digest_size=16).digest()
    every = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **facts}
    head = array([text(name) + text(value) for name, value in every.items()])
    if not rows:
        return _MAGIC + head + mark
    packer = zlib.compressobj(4, zlib.DEFLATED, -15)
    packed = packer.compress(body) + packer.flush()
    return b"".join([_MAGIC, head, mark, number(len(rows)), data(packed), mark])


def facts_of(file: bytes) -> dict[str, str]:
    """The facts in the head of a file that `container` has made."""
    at = len(_MAGIC)

    def long() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = file[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def word() -> str:
        nonlocal at
        length = long()
        at += length
        return file[at - length : at].decode()

    return {word(): word() for _ in range(long())}
