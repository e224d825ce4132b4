"""JSON objects on lines, by columns: a block is taken apart by Arrow's reader of CSV.

Programs write all objects in one form. So a line is cut at its commas; between two of them stand a name that is known
beforehand and a value, which is checked against a sample line with as many commas (`_Form`). Lines that do not fit
are tried again with commas within strings hidden, and then left to the record-by-record reader.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy.typing as npt

from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa, pacsv, pc
from pgrepl.replication.formats.json_text import read_json

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Path = tuple[str, ...]

_COMMA, _QUOTE, _LINE_FEED, _RETURN, _SPACE = b',"\n\r '
_HIDDEN_QUOTE, _HIDDEN_BACKSLASH, _HIDDEN_COMMA = b"\1", b"\2", b"\3"  # valid JSON has no such characters
_CELLS_BLOCK = 1 << 20
_SHORT = 16  # bytes of a line without an object of interest
_SAMPLES = 8  # forms of lines with the same number of commas
_TOKEN = re.compile(rb'[ \t]*(?:("[^"\\]*(?:\\.[^"\\]*)*")|([{}:,])|([^\s"{}\[\]:,]+))')
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


@frozen
class Column:
    """The values of one name in some lines; NULL is null. All of them are strings, or none."""

    text: pa.Array
    is_string: bool  # they have quotation marks


@frozen
class Group:
    """Lines of one form."""

    rows: Numbers  # their numbers in the block
    columns: dict[Path, Column]
    objects: frozenset[Path]  # the names of objects that the lines have


@frozen
class _Piece:
    """A piece between two commas: `before`, a value, `behind`."""

    path: Path | None  # None: there is no value, as in an empty object
    before: bytes
    behind: bytes
    commas: int = 0  # within the value


@frozen
class _Form:
    pieces: tuple[_Piece, ...]
    objects: frozenset[Path]


class JsonBlock:
    """A block of lines; it ends with a line feed."""

    def __init__(self, data: bytes) -> None:
        self._original = data
        self._starts = _line_starts(np.frombuffer(data, np.uint8))

    @property
    def count(self) -> int:
        return len(self._starts) - 1

    def line(self, at: int) -> bytes:
        return self._original[self._starts[at] : self._starts[at + 1]].rstrip(b"\r\n")

    def lines_with_text(self) -> Numbers:
        """The lines that are neither empty nor `null`."""
        lengths = np.diff(self._starts)
        short = np.flatnonzero(lengths <= _SHORT)
        keep = np.ones(self.count, bool)
        keep[short] = [self.line(at).strip() not in (b"", b"null") for at in short.tolist()]
        return np.flatnonzero(keep)

    def starts_with(self, front: bytes) -> bool:
        return self._original.startswith(front)

    def without_front(self, front: bytes) -> JsonBlock | None:
        """The lines without the bytes that all of them begin with, and without the brace at their ends; None: a line is
        otherwise. Short lines stay."""
        size = len(front)
        shown = []
        for at in range(self.count):
            line = self.line(at)
            if line.startswith(front) and line.endswith(b"}"):
                shown.append(line[size:-1])
            elif len(line) <= _SHORT:
                shown.append(line)
            else:
                return None
        shown.append(b"")
        return JsonBlock(b"\n".join(shown))

    def groups(self, wanted: Collection[Path]) -> Iterator[Group]:
        """The lines that can be read so, by their forms. `wanted`: the names whose values are asked for; a path that
        ends with `*` stands for all names of an object."""
        controls = self._with_control_characters()
        if len(controls):
            yield from self._groups_without(controls, wanted)
            return
        lines = _lines(self._original, self._starts)
        left = self._by_commas(lines, _commas(np.frombuffer(self._original, np.uint8), self._starts), wanted)
        yield from left.groups
        hidden = _without_commas(lines.take(left.rows)) if len(left.rows) else None
        if hidden is not None:  # there were commas in strings
            hidden_groups = self._by_commas(hidden, _commas(*_content(hidden)), wanted)
            yield from [Group(left.rows[group.rows], group.columns, group.objects) for group in hidden_groups.groups]

    def _with_control_characters(self) -> Numbers:
        """The lines with characters that JSON's strings must not have. (A tab between values is rare, too.)"""
        data = np.frombuffer(self._original, np.uint8)
        low = data < _SPACE
        if np.count_nonzero(low) == self.count:  # line feeds only, as nearly always
            return np.zeros(0, np.int64)
        places = np.flatnonzero(low & (data != _LINE_FEED))
        is_line_end = (data[places] == _RETURN) & (data[np.minimum(places + 1, len(data) - 1)] == _LINE_FEED)
        places = places[~is_line_end]
        return np.unique(np.searchsorted(self._starts, places, side="right") - 1)

    def _groups_without(self, left_out: Numbers, wanted: Collection[Path]) -> Iterator[Group]:
        kept = np.setdiff1d(np.arange(self.count), left_out)
        shown = [self._original[self._starts[at] : self._starts[at + 1]] for at in kept.tolist()]
        for group in JsonBlock(b"".join(shown)).groups(wanted) if shown else ():
            yield Group(kept[group.rows], group.columns, group.objects)

    @staticmethod
    def _by_commas(lines: pa.Array, commas: Numbers, wanted: Collection[Path]) -> _Read:
        groups: list[Group] = []
        rest: list[Numbers] = []
        order = np.argsort(commas, kind="stable")
        borders = np.flatnonzero(np.diff(commas[order])) + 1
        for rows in np.split(order, borders):
            for _ in range(_SAMPLES):
                fits, group = _read_form(lines, rows, int(commas[rows[0]]), wanted)
                if group is not None:
                    groups.append(group)
                rows = rows[~fits]
                if not len(rows) or not fits.any():
                    break
            rest.append(rows)
        return _Read(groups, np.sort(np.concatenate(rest)) if rest else np.zeros(0, np.int64))


@frozen
class _Read:
    groups: Sequence[Group]
    rows: Numbers  # lines that are not read


# --- lines ------------------------------------------------------------------------------------------------------------


def _line_starts(data: npt.NDArray[np.uint8]) -> Numbers:
    ends = np.flatnonzero(data == _LINE_FEED)
    return np.concatenate([np.zeros(1, np.int64), ends + 1])


def _lines(data: bytes, starts: Numbers) -> pa.Array:
    """The lines, with their line feeds, as an array that shares the block's memory."""
    buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, buffers)


def _commas(data: npt.NDArray[np.uint8], starts: Numbers) -> Numbers:
    """The number of commas in each line."""
    places = np.flatnonzero(data == _COMMA)
    return np.diff(np.searchsorted(places, starts))


def _without_commas(lines: pa.Array) -> pa.Array | None:
    """The lines, in which commas within strings and escaped quotation marks are replaced; None: that cannot be done."""
    content, starts = _content(lines)
    data = content.tobytes()
    if any(hidden in data for hidden in (_HIDDEN_QUOTE, _HIDDEN_BACKSLASH, _HIDDEN_COMMA)):
        return None
    if b"\\" in data:
        data = data.replace(b"\\\\", _HIDDEN_BACKSLASH).replace(b'\\"', _HIDDEN_QUOTE)
        starts = _line_starts(np.frombuffer(data, np.uint8))
    shown = np.frombuffer(data, np.uint8).copy()
    inside = np.bitwise_xor.accumulate((shown == _QUOTE).view(np.uint8))
    shown[(inside == 1) & (shown == _COMMA)] = _HIDDEN_COMMA[0]
    return _lines(shown.tobytes(), starts)


def _content(lines: pa.Array) -> tuple[npt.NDArray[np.uint8], Numbers]:
    """The bytes of an array that was made by `take`, and where its values begin and end."""
    _, offsets, data = lines.buffers()
    starts = np.frombuffer(offsets, np.int32)[: len(lines) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[: int(starts[-1])], starts


# --- forms ------------------------------------------------------------------------------------------------------------


def _form_of(line: bytes) -> _Form | None:
    """The form of a sample line; None: it is no object, or has a list."""
    pieces: list[_Piece] = []
    objects: set[Path] = set()
    stack: list[str] = []
    piece, at = 0, 0
    value: tuple[int, int] | None = None
    name: bytes | None = None
    depth = 0
    expects_value = False
    path: Path | None = None
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None:
            return None
        text, mark, bare = token.groups()
        if text is not None and not expects_value:
            name = text
        elif (text is not None or bare is not None) and expects_value:
            value = token.span(1 if text is not None else 3)
            path = (*stack, _name(name))
            expects_value = False
        elif mark == b":" and name is not None and not expects_value:
            expects_value = True
        elif mark == b"{" and (expects_value or (not pieces and not depth and not stack)):
            if expects_value:
                stack.append(_name(name))
                objects.add(tuple(stack))
            depth, expects_value, name = depth + 1, False, None
        elif mark == b"}" and depth and not expects_value:
            depth -= 1
            if stack:
                stack.pop()
        elif mark == b"," and depth and not expects_value:
            pieces.append(_piece(line[piece : token.start(2)], path, value, piece))
            piece, value, path, name = token.end(), None, None, None
        else:
            return None
        at = token.end()
    if depth or stack or expects_value:
        return None
    pieces.append(_piece(line[piece:], path, value, piece))
    paths = [part.path for part in pieces if part.path is not None]
    return _Form(tuple(pieces), frozenset(objects)) if len(set(paths)) == len(paths) else None


def _sample_form(line: bytes, wanted: Collection[Path]) -> _Form | None:
    """The form of a line whose strings may have commas in them, in names that nobody asks for."""
    try:
        form = _form_of(_STRING.sub(lambda match: match[0].replace(b",", _HIDDEN_COMMA), line))
    except UnicodeDecodeError:
        return None
    if form is None or any(b"\\" in piece.before for piece in form.pieces):
        return None
    pieces: list[_Piece] = []
    for piece in form.pieces:
        if not piece.commas:
            pieces.append(piece)
        elif piece.path is None or _is_wanted(piece.path, wanted):
            return None
        else:
            pieces.append(_Piece(piece.path, piece.before, b""))
            pieces += [_Piece((), b"", b"")] * (piece.commas - 1)
            pieces.append(_Piece((), b"", piece.behind))
    return _Form(tuple(pieces), form.objects)


def _name(name: bytes | None) -> str:
    return (name or b"")[1:-1].decode()


def _piece(text: bytes, path: Path | None, value: tuple[int, int] | None, start: int) -> _Piece:
    if value is None:
        return _Piece(None, text, b"")
    first, last = value[0] - start, value[1] - start
    return _Piece(path, text[:first], text[last:], text.count(_HIDDEN_COMMA, first, last))


def _read_form(lines: pa.Array, rows: Numbers, commas: int, wanted: Collection[Path]) -> tuple[Flags, Group | None]:
    """Read lines with equally many commas by the form of the first; returns which of them fit. The first counts as
    fitting, also if it cannot be read, so that another is the next sample."""
    first = np.zeros(len(rows), bool)
    first[0] = True
    form = _sample_form(lines[int(rows[0])].as_py().rstrip(b"\r\n"), wanted)
    if form is None or len(form.pieces) != commas + 1:
        return first, None
    asked = {str(at): part for at, part in enumerate(form.pieces) if part.path and _is_wanted(part.path, wanted)}
    if not asked:
        return first, None
    table = _cells(lines if len(rows) == len(lines) else lines.take(rows), len(form.pieces), list(asked))
    if table is None or table.num_rows != len(rows):
        return first, None
    fits = np.ones(len(rows), bool)
    columns = {}
    for name, piece in asked.items():
        assert piece.path is not None
        columns[piece.path] = _column(piece, table.column(name).combine_chunks(), fits)
    if not fits.any():
        return first, None
    kept = {}
    for path, (text, is_string) in columns.items():
        try:
            shown = _unescaped(text.cast(pa.string()))
        except (pa.ArrowInvalid, ValueError):
            return first, None
        kept[path] = Column(shown if fits.all() else shown.filter(pa.array(fits)), is_string)
    return fits | first, Group(rows[fits], kept, form.objects)


def _cells(lines: pa.Array, count: int, names: list[str]) -> pa.Table | None:
    """Some of the pieces of lines, by their numbers; None: a line has another number of pieces."""
    content, _ = _content(lines)
    try:
        return pacsv.read_csv(
            pa.BufferReader(pa.py_buffer(content)),
            pacsv.ReadOptions(
                use_threads=False, block_size=_CELLS_BLOCK, column_names=[str(at) for at in range(count)]
            ),
            pacsv.ParseOptions(quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False),
            pacsv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(names, pa.binary()), include_columns=names
            ),
        )
    except pa.ArrowInvalid:
        return None


def _is_wanted(path: Path, wanted: Collection[Path]) -> bool:
    return path in wanted or (*path[:-1], "*") in wanted


def _flags(mask: pa.Array) -> npt.NDArray[Any]:
    flags: npt.NDArray[Any] = mask.to_numpy(zero_copy_only=False)
    return flags


def _column(piece: _Piece, array: pa.Array, fits: Flags) -> tuple[pa.Array, bool]:
    """The values of a piece, and whether they are strings. Lines that do not fit lose their flag."""
    one = array[0]
    if len(array) > 1 and one.equals(array[-1]) and pc.all(pc.equal(array, one)).as_py():
        (value,), is_string = _column(piece, pa.array([one]), fit := np.ones(1, bool))
        fits &= fit[0]
        return pa.repeat(value, len(array)) if value.is_valid else pa.nulls(len(array), pa.binary()), is_string
    opening, closing = piece.before + b'"', b'"' + piece.behind
    strings = pc.starts_with(array, opening)
    is_string = bool(pc.any(strings).as_py())
    before, behind = (opening, closing) if is_string else (piece.before, piece.behind)
    good = pc.and_(strings if is_string else pc.starts_with(array, before), pc.ends_with(array, behind))
    null = pc.equal(array, piece.before + b"null" + piece.behind)
    lengths = _flags(pc.binary_length(array))
    present: Flags | None = None  # all are
    if not pc.all(good).as_py() or int(lengths.min()) < len(before) + len(behind) or pc.any(null).as_py():
        nulls = _flags(null)
        fit = _flags(good) & (lengths >= len(before) + len(behind))
        fits &= fit | nulls
        present = fit & ~nulls
    values = _cut(array, lengths, len(before), len(behind), present)
    if not is_string and not _are_numbers(values):
        numbers = _flags(pc.match_substring_regex(values, _NUMBERS).fill_null(False))
        fits &= numbers if present is None else numbers | ~present
    return values, is_string


def _cut(array: pa.Array, lengths: npt.NDArray[Any], before: int, behind: int, present: Flags | None) -> pa.Array:
    """The values without so many bytes at their ends; NULL where `present` is false. (Arrow's binary_slice cannot cut
    at the end of short values.)"""
    count = len(array)
    _, offsets, data = array.buffers()
    first = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
    borders = np.empty(2 * count + 1, np.int32)  # of what is kept and what is left out, in turn
    borders[-1] = first[-1]
    borders[0 : 2 * count : 2] = first[:-1] + (before if present is None else np.where(present, before, lengths))
    borders[1 : 2 * count : 2] = first[1:] - (behind if present is None else np.where(present, behind, 0))
    both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(borders), data])
    keep = np.zeros(2 * count, bool)
    keep[::2] = True
    _, cut, content = both.filter(pa.array(keep)).buffers()
    validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), count, [validity, cut, content])


def _bytes_of(values: pa.Array) -> npt.NDArray[np.uint8]:
    """The content of an array that `_cut` has made."""
    _, offsets, content = values.buffers()
    end = int(np.frombuffer(offsets, np.int32)[len(values)])
    return np.frombuffer(content, np.uint8)[:end] if end else np.zeros(0, np.uint8)


def _are_numbers(values: pa.Array) -> bool:
    """Whether all values are plain whole numbers, or all true or false, as most columns are."""
    lengths = np.diff(np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1])
    content = _bytes_of(values)
    if values.null_count == 0 and lengths.all() and _DIGITS[content].all():
        return True
    return bool(pc.all(pc.is_in(values, pa.array(_WORDS, pa.binary()))).as_py())


_WORDS = (b"true", b"false", None)
_NUMBERS = r"^(-?[0-9][0-9.eE+-]*|true|false|NaN|-?Infinity)$"
_DIGITS = np.zeros(256, bool)
_DIGITS[list(b"0123456789")] = True


def _unescaped(values: pa.Array) -> pa.Array:
    """The values with their escapes resolved."""
    if not _ESCAPES[_bytes_of(values)].any():
        return values
    flags = _flags(pc.match_substring_regex(values, r"[\\\x01-\x03]").fill_null(False))
    escaped = np.flatnonzero(flags)
    resolved = [_resolved(value) for value in values.take(escaped).to_pylist()]
    return pc.replace_with_mask(values, pa.array(flags), pa.array(resolved, pa.string()))


_ESCAPES = np.zeros(256, bool)
_ESCAPES[[ord("\\"), *_HIDDEN_QUOTE, *_HIDDEN_BACKSLASH, *_HIDDEN_COMMA]] = True


def _resolved(text: str) -> Any:
    shown = text.replace("\3", ",")
    if "\1" not in shown and "\2" not in shown and "\\" not in shown:
        return shown
    text = read_json(f'"{shown}"'.replace("\1", '\\"').replace("\2", "\\\\"))
    if "\0" in text:
        raise ValueError("a NUL character")
    return text
