r"""The fields of one line (CopyReadAttributesText, CopyReadAttributesCSV), and a file's bytes as text and back.

A field is its text, None for NULL, or DEFAULT, compared as it is written. Reading yields all text before an invalid
byte first: the marker `\.` may stand before that.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final

from pgrepl.ground.errors import PgError
from pgrepl.types.input_checks import codec, invalid, invalid_bytes, zero_byte
from pgrepl.writing.copy.copy_options import CopyOptions


def decoded(chunks: Iterable[bytes], encoding: str) -> Iterator[str]:
    """The text of a file that comes in pieces."""
    decoder = codecs.getincrementaldecoder(codec(encoding))()
    pending = b""  # what the decoder has not turned into text yet
    for chunk in chunks:
        yield from _decode(decoder, chunk, pending, encoding, final=False)
        pending = decoder.getstate()[0]
    yield from _decode(decoder, b"", pending, encoding, final=True)


def _decode(
    decoder: codecs.IncrementalDecoder, chunk: bytes, pending: bytes, encoding: str, *, final: bool
) -> Iterator[str]:
    wrong: PgError | None = None
    try:
        text = decoder.decode(chunk, final)
    except UnicodeDecodeError:
        text, wrong = _until_invalid(pending + chunk, encoding)
    if "\0" in text:
        text, _, _ = text.partition("\0")
        wrong = zero_byte(encoding)
    if text:
        yield text
    if wrong is not None:
        raise wrong


def _until_invalid(raw: bytes, encoding: str) -> tuple[str, PgError]:
    """The text before the first invalid byte, and the error for that byte."""
    try:
        raw.decode(codec(encoding))
    except UnicodeDecodeError as fault:
        return raw[: fault.start].decode(codec(encoding)), invalid(raw, fault.start, encoding)
    raise AssertionError("no fault found")


def verified(raw: bytes) -> str:
    """Decode a field with bytes from escapes like `\\303\\251`; an error if it is not UTF-8 (pg_verifymbstr)."""
    at = raw.find(b"\0")
    try:
        text = raw.decode()
    except UnicodeDecodeError as fault:
        raise invalid_bytes(raw, min(fault.start, at) if at >= 0 else fault.start) from None
    if at >= 0:
        raise invalid_bytes(raw, at)
    return text


class DefaultMark(Enum):
    DEFAULT = "default"


DEFAULT: Final = DefaultMark.DEFAULT
Splitter = Callable[[str], "list[Any]"]  # of texts, DEFAULT and None


def splitter(options: CopyOptions, columns: Sequence[str], defaults: Sequence[bool]) -> Splitter:
    """The function that splits lines of this format. `columns` are the names of the columns in the file, and `defaults`
    says which of them have a default."""
    if not columns:
        return _no_fields
    walk = _walk_csv(options) if options.csv else _walk_text(options)
    if options.default is None:
        careful = _with_nulls(walk, options)
        return _quick_csv(careful, options, len(columns)) if options.csv else _quick_text(careful, options)
    return _with_defaults(walk, options, columns, defaults)


def _no_fields(line: str) -> list[Any]:
    if line:
        raise PgError("22P04", "extra data after last expected column")
    return []


# --- a line that needs no care: most do not ---------------------------------------------------------------------------


def _quick_text(careful: Splitter, options: CopyOptions) -> Splitter:
    delimiter, null = options.delimiter, options.null
    has_null = "\\" not in null

    def split(line: str) -> list[Any]:
        if "\\" in line:
            return careful(line)
        fields: list[Any] = line.split(delimiter)
        return [None if field == null else field for field in fields] if has_null else fields

    return split


def _quick_csv(careful: Splitter, options: CopyOptions, count: int) -> Splitter:
    """Splits lines without quotes, and lines of `count` fields whose quotes enclose whole fields; `careful` splits the
    others."""
    delimiter, quote, null = options.delimiter, options.quote, options.null
    if options.escape != quote:
        return lambda line: careful(line) if quote in line else _plain(line, delimiter, null)
    mark, doubled = re.escape(quote), quote * 2
    field = f"(?:{mark}([^{mark}]*(?:{mark}{mark}[^{mark}]*)*){mark}|([^{mark}{re.escape(delimiter)}]*))"
    match = re.compile(re.escape(delimiter).join([field] * count)).fullmatch

    def split(line: str) -> list[Any]:
        if quote not in line:
            return _plain(line, delimiter, null)
        line_match = match(line)
        if line_match is None:
            return careful(line)
        groups = line_match.groups()
        return [
            (None if plain == null else plain) if quoted is None else quoted.replace(doubled, quote)
            for quoted, plain in zip(groups[::2], groups[1::2], strict=True)
        ]

    return split


def _plain(line: str, delimiter: str, null: str) -> list[Any]:
    return [None if field == null else field for field in line.split(delimiter)]


# --- with care --------------------------------------------------------------------------------------------------------

# Yields for each field of a line: the text as written, whether it had quotes, and the text without them.
Walk = Callable[[str], "Iterator[tuple[str, bool, str]]"]


def _with_nulls(walk: Walk, options: CopyOptions) -> Splitter:
    null, resolve = options.null, _as_is if options.csv else unescaped
    return lambda line: [None if raw == null and not quoted else resolve(field) for raw, quoted, field in walk(line)]


def _with_defaults(walk: Walk, options: CopyOptions, columns: Sequence[str], defaults: Sequence[bool]) -> Splitter:
    null, default, resolve = options.null, options.default, _as_is if options.csv else unescaped

    def split(line: str) -> list[Any]:
        fields: list[Any] = []
        for number, (raw, quoted, field) in enumerate(walk(line)):
            if raw == null and not quoted:
                fields.append(None)
            elif raw == default and number < len(columns):
                if not defaults[number]:
                    raise PgError(
                        "22P04",
                        "unexpected default marker in COPY data",
                        detail=f'Column "{columns[number]}" has no default value.',
                    )
                fields.append(DEFAULT)
            else:
                fields.append(resolve(field))
        return fields

    return split


def _as_is(field: str) -> str:
    return field


def _walk_text(options: CopyOptions) -> Walk:
    # A hexadecimal escape is looked for before a delimiter, which may be such a digit in upper case.
    mark = re.escape(options.delimiter)
    field = re.compile(rf"(?:[^\\{mark}]+|\\x[0-9A-Fa-f]{{1,2}}|\\[\s\S])*")
    delimiter = options.delimiter

    def walk(line: str) -> Iterator[tuple[str, bool, str]]:
        if "\\" + delimiter not in line and "\\x" not in line:
            raws = line.split(delimiter)
        else:
            raws, at = [], -1
            while at < len(line):
                match = field.match(line, at + 1)
                assert match is not None
                at = match.end()
                raws.append(match[0])
                if line[at : at + 1] == "\\":  # nothing follows it
                    break
        if raws[-1].endswith("\\") and (len(raws[-1]) - len(raws[-1].rstrip("\\"))) % 2:
            raws[-1] = raws[-1][:-1]
        for raw in raws:
            yield raw, False, raw

    return walk


_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|([\s\S]))")
_ESCAPE_BYTES = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|([\s\S]))")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescaped(field: str) -> str:
    r"""Resolve the escapes of a field in text format: `\t`, `\101`, `\x41`; `\q` is q."""
    if "\\" not in field:
        return field
    beyond_ascii = False

    def resolve(match: re.Match[str]) -> str:
        nonlocal beyond_ascii
        octal, hexadecimal, char = match.groups()
        if char is not None:
            return _LETTERS.get(char, char)
        code = int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)
        beyond_ascii = beyond_ascii or not 0 < code < 0x80
        return chr(code)

    text = _ESCAPE.sub(resolve, field)
    return _unescaped_bytes(field) if beyond_ascii else text


def _unescaped_bytes(field: str) -> str:
    """Bytes given by number may be parts of characters."""

    def resolve(escape: re.Match[bytes]) -> bytes:
        octal, hexadecimal, char = escape.groups()
        if char is not None:
            return _LETTERS.get(char.decode("latin-1"), "").encode() or char
        return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])

    return verified(_ESCAPE_BYTES.sub(resolve, field.encode()))


def _walk_csv(options: CopyOptions) -> Walk:
    delimiter, quote, escape = options.delimiter, options.quote, options.escape
    outside = re.compile(f"[{re.escape(delimiter + quote)}]")
    inside = re.compile(f"[{re.escape(quote + escape)}]")
    # the usual form: quotes around the whole field, doubled inside
    mark, end = re.escape(quote), f"(?:{re.escape(delimiter)}|\\Z)"
    usual = re.compile(f"{mark}([^{mark}]*(?:{mark}{mark}[^{mark}]*)*){mark}{end}") if escape == quote else None
    doubled = quote * 2

    def walk(line: str) -> Iterator[tuple[str, bool, str]]:
        at, length, more = 0, len(line), True
        while more:
            start = at
            end_match = usual.match(line, at) if usual is not None else None
            if end_match is not None:
                at = end_match.end()
                stop = end_match.end(1) + 1
                more = stop < length
                yield line[start:stop], True, end_match[1].replace(doubled, quote)
                continue
            parts: list[str] = []
            quoted = False
            while True:
                end_match = outside.search(line, at)
                stop = length if end_match is None else end_match.start()
                parts.append(line[at:stop])
                at = stop + 1
                more = end_match is not None
                if end_match is None or end_match[0] == delimiter:
                    break
                quoted = True
                at = _quoted_part(line, at, parts)
            yield line[start:stop], quoted, "".join(parts)

    def _quoted_part(line: str, at: int, parts: list[str]) -> int:
        """Read up to the closing quote; returns the position behind it."""
        while True:
            match = inside.search(line, at)
            if match is None:
                raise PgError("22P04", "unterminated CSV quoted field")
            parts.append(line[at : match.start()])
            at, char = match.end(), match[0]
            if char == escape and line[at : at + 1] in (escape, quote):
                parts.append(line[at])
                at += 1
            elif char == quote:
                return at
            else:
                parts.append(char)

    return walk
