"""Input and output of inet, cidr and MAC addresses. A value is its canonical text."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv6Address
from typing import Any, NamedTuple

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.input_checks import invalid_text
from pgrepl.types.style import TextStyle


class Address(NamedTuple):
    version: int  # 4 or 6
    number: int
    bits: int  # of the network

    @property
    def size(self) -> int:
        return 32 if self.version == 4 else 128

    @property
    def host_mask(self) -> int:
        return (1 << self.size - self.bits) - 1


_OCTETS = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3}){0,3})(?:/([0-9]{1,3}))?", re.ASCII)


def _parse_v4(text: str, is_cidr: bool) -> Address | None:
    """As inet_net_pton_ipv4 and inet_cidr_pton_ipv4 do: octets may be left out when the mask says so."""
    match = _OCTETS.fullmatch(text)
    if match is None:
        return None
    octets = [int(part) for part in match[1].split(".")]
    if max(octets) > 255:
        return None
    bits = int(match[2]) if match[2] is not None else -1
    if bits > 32:
        return None
    given = len(octets)
    octets += [0] * (4 - given)
    if bits < 0:
        if not is_cidr and given < 4:
            return None
        if is_cidr:
            bits = 32 if octets[0] >= 240 else 8 if octets[0] >= 224 else 24 if octets[0] >= 192 else 16
            bits = bits if octets[0] >= 128 else 8
            bits = max(bits, given * 8)
        else:
            bits = 32
    elif not is_cidr and given * 8 < bits:
        return None
    number = 0
    for octet in octets:
        number = number << 8 | octet
    return Address(4, number, bits)


def _parse_v6(text: str) -> Address | None:
    address, slash, mask = text.partition("/")
    if slash and (not mask.isascii() or not mask.isdigit() or int(mask) > 128 or (len(mask) > 1 and mask[0] == "0")):
        return None
    if "%" in address:
        return None
    try:
        return Address(6, int(IPv6Address(address)), int(mask) if slash else 128)
    except AddressValueError:
        return None


def parse_address(text: str, typename: str = "inet") -> Address:
    is_cidr = typename == "cidr"
    address = _parse_v6(text) if ":" in text else _parse_v4(text, is_cidr)
    if address is None:
        raise invalid_text(typename, text)
    if is_cidr and address.number & address.host_mask:
        raise PgError("22P02", f'invalid cidr value: "{text}"', detail="Value has bits set to right of mask.")
    return address


def address_text(address: Address) -> str:
    """The address without the mask."""
    if address.version == 4:
        return ".".join(str(address.number >> shift & 255) for shift in (24, 16, 8, 0))
    words = [address.number >> shift & 0xFFFF for shift in range(112, -1, -16)]
    start, length = _longest_zeros(words)
    low = address.number & 0xFFFFFFFF
    embedded = start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF))
    shown = [f"{word:x}" for word in (words[:6] if embedded else words)]
    if embedded:
        shown.append(address_text(Address(4, low, 32)))
    if length < 2:
        return ":".join(shown)
    end = min(start + length, len(shown) - (1 if embedded else 0))
    return ":".join(shown[:start]) + "::" + ":".join(shown[end:])


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    best = (-1, 0)
    start = -1
    for position, word in enumerate([*words, 1]):
        if word == 0:
            start = position if start < 0 else start
        elif start >= 0:
            if position - start > best[1]:
                best = (start, position - start)
            start = -1
    return best


def inet_text(address: Address, *, always_mask: bool = False) -> str:
    text = address_text(address)
    return f"{text}/{address.bits}" if always_mask or address.bits != address.size else text


def read_inet(text: str) -> str:
    return inet_text(parse_address(text))


def read_cidr(text: str) -> str:
    return inet_text(parse_address(text, "cidr"), always_mask=True)


def network_key(value: str) -> tuple[int, int, int, int]:
    """Family, network, bits of it, then the host; as network_cmp orders (the networks by their common bits)."""
    address = parse_address(value)
    network = address.number & ~address.host_mask
    return address.version, network, address.bits, address.number


# Separators between the bytes, and how many digits a byte may have; as macaddr_in tries them.
_SPACES = " \t\n\r\v\f"
_MAC_FORMS = ((":::::", 0), ("-----", 0), ("  :  ", 2), ("  -  ", 2), (" . . ", 2), (" - - ", 2), ("     ", 2))


def read_macaddr(text: str) -> str:
    for separators, width in _MAC_FORMS:
        octets = _scan_mac(text, separators, width)
        if octets is not None:
            if max(octets) > 255 or min(octets) < 0:
                raise PgError("22003", f'invalid octet value in "macaddr" value: "{text}"')
            return ":".join(f"{byte:02x}" for byte in octets)
    raise invalid_text("macaddr", text)


def _scan_mac(text: str, separators: str, width: int) -> list[int] | None:
    """Match as C's sscanf: hexadecimal digits up to the given width, and nothing but spaces behind."""
    digits = re.compile(rf"\s*([0-9a-fA-F]{{1,{width}}})" if width else r"\s*([-+]?[0-9a-fA-F]+)", re.ASCII)
    octets = []
    at = 0
    for separator in (*separators, ""):
        number = digits.match(text, at)
        if number is None:
            return None
        octets.append(int(number[1], 16))
        at = number.end()
        if separator.strip():
            if text[at : at + 1] != separator:
                return None
            at += 1
    return None if text[at:].strip(_SPACES) else octets


def read_macaddr8(text: str) -> str:
    """As macaddr8_in does: bytes of two digits, one separator throughout; six bytes get FF:FE in the middle.

    A lone character at the end is overlooked.
    """
    rest = text.lstrip(_SPACES)
    octets: list[int] = []
    separators = set()
    while len(rest.encode()) > 1:
        pair, separator = rest[:2], rest[2:3]
        if len(octets) == 8 or not re.fullmatch("[0-9a-fA-F]{2}", pair):
            raise invalid_text("macaddr8", text)
        octets.append(int(pair, 16))
        rest = rest[2:]
        if separator in (":", "-", ".") and separator:
            separators.add(separator)
            rest = rest[1:]
        if len(octets) in (6, 8) and rest[:1] in tuple(_SPACES):
            rest = rest.lstrip(_SPACES)
            if rest:
                raise invalid_text("macaddr8", text)
    if len(octets) == 6:
        octets[3:3] = [0xFF, 0xFE]
    if len(octets) != 8 or len(separators) > 1:
        raise invalid_text("macaddr8", text)
    return ":".join(f"{byte:02x}" for byte in octets)


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {
    oids.INET: lambda text, typmod, style: read_inet(text),
    oids.CIDR: lambda text, typmod, style: read_cidr(text),
    oids.MACADDR: lambda text, typmod, style: read_macaddr(text),
    oids.MACADDR8: lambda text, typmod, style: read_macaddr8(text),
}
WRITE: dict[int, Callable[[Any, TextStyle], str]] = dict.fromkeys(READ, lambda value, style: str(value))
