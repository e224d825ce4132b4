"""Values that a client sends: the parameters of Bind, the arguments of a function call."""

from __future__ import annotations

from typing import Protocol

from pgrepl.errors import PgError
from pgrepl.server.channel import Body
from pgrepl.server.rows import TEXTS
from pgrepl.types.binary import BinaryMessage, receives
from pgrepl.types.encodings import zero_byte
from pgrepl.types.names import format_type
from pgrepl.types.style import TextStyle
from pgrepl.types.text import writer


class Decoder(Protocol):
    def decode(self, data: bytes) -> str: ...


def counted(body: Body) -> int:
    """A number of things that follow."""
    return int.from_bytes(body.take(2), "big")


def formats_for(formats: list[int], count: int) -> list[int]:
    """The format of each value: none is given, one for all, or one for each."""
    return formats * count if len(formats) == 1 else formats or [0] * count


def text_of(client: Decoder, value: bytes, typoid: int, form: int, style: TextStyle, where: str) -> str:
    """The text of a value, which a statement reads; `where` names it in errors."""
    if form not in (0, 1):
        raise PgError("22023", f"unsupported format code: {form}")
    if form == 0 or typoid in TEXTS:
        text = client.decode(value)
        if "\0" in text:
            raise zero_byte(style.encoding)
        return text
    receive = receives(typoid)
    if receive is None:
        raise PgError("42883", f"no binary input function available for type {format_type(typoid)}")
    message = BinaryMessage(value)
    found = receive(message, -1, style)
    if not message.is_read:
        raise PgError("22P03", f"incorrect binary data format in {where}")
    return writer(typoid)(found, style)
