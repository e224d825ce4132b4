"""inet and cidr: parts of addresses, networks, containment, bitwise and integer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable

from pgrepl.expr.functions.registry import Family
from pgrepl.ground.errors import PgError
from pgrepl.types.network import Address, address_text, inet_text, parse_address

implements = Family()


@implements("network_host")
def host(value: str) -> str:
    return address_text(parse_address(value))


@implements("network_show")
def show(value: str) -> str:
    return inet_text(parse_address(value), always_mask=True)


implements("network_masklen")(lambda value: parse_address(value).bits)


@implements("network_family")
def family(value: str) -> int:
    return parse_address(value).version


def _network(address: Address) -> Address:
    return address._replace(number=address.number & ~address.host_mask)


@implements("network_network", "inet_to_cidr")
def network(value: str) -> str:
    return inet_text(_network(parse_address(value)), always_mask=True)


@implements("network_broadcast")
def broadcast(value: str) -> str:
    address = parse_address(value)
    return inet_text(address._replace(number=address.number | address.host_mask))


@implements("network_netmask")
def netmask(value: str) -> str:
    address = parse_address(value)
    return address_text(address._replace(number=(1 << address.size) - 1 & ~address.host_mask))


@implements("network_hostmask")
def hostmask(value: str) -> str:
    address = parse_address(value)
    return address_text(address._replace(number=address.host_mask))


implements("inet_abbrev")(lambda value: value)


@implements("cidr_abbrev")
def cidr_abbrev(value: str) -> str:
    address = parse_address(value)
    if address.version == 6:
        return value
    octets = address_text(address).split(".")
    return ".".join(octets[: max((address.bits + 7) // 8, 1)]) + f"/{address.bits}"


def _masked(value: str, bits: int) -> Address:
    address = parse_address(value)
    if bits == -1:
        bits = address.size
    if not 0 <= bits <= address.size:
        raise PgError("22023", f"invalid mask length: {bits}")
    return address._replace(bits=bits)


implements("inet_set_masklen")(lambda value, bits: inet_text(_masked(value, bits)))
implements("cidr_set_masklen")(lambda value, bits: inet_text(_network(_masked(value, bits)), always_mask=True))
implements("inet_same_family")(lambda one, two: family(one) == family(two))


@implements("inet_merge")
def inet_merge(one: str, two: str) -> str:
    a, b = parse_address(one), parse_address(two)
    if a.version != b.version:
        raise PgError("22023", "cannot merge addresses from different families")
    bits = min(a.bits, b.bits)
    while bits and a.number >> a.size - bits != b.number >> b.size - bits:
        bits -= 1
    return inet_text(_network(a._replace(bits=bits)), always_mask=True)


def _within(inner: Address, outer: Address) -> bool:
    same = inner.version == outer.version and inner.bits >= outer.bits
    return same and inner.number >> outer.size - outer.bits == outer.number >> outer.size - outer.bits


@implements("network_sub")
def network_sub(one: str, two: str) -> bool:
    a, b = parse_address(one), parse_address(two)
    return _within(a, b) and a.bits > b.bits


@implements("network_subeq")
def network_subeq(one: str, two: str) -> bool:
    return _within(parse_address(one), parse_address(two))


implements("network_sup")(lambda one, two: network_sub(two, one))
implements("network_supeq")(lambda one, two: network_subeq(two, one))
implements("network_overlap")(lambda one, two: network_subeq(one, two) or network_subeq(two, one))


def _bitwise(name: str, word: str, function: Callable[[int, int], int]) -> None:
    def compute(one: str, two: str) -> str:
        a, b = parse_address(one), parse_address(two)
        if a.version != b.version:
            raise PgError("22023", f"cannot {word} inet values of different sizes")
        return inet_text(Address(a.version, function(a.number, b.number), max(a.bits, b.bits)))

    implements(name)(compute)


_bitwise("inetand", "AND", operator.and_)
_bitwise("inetor", "OR", operator.or_)


@implements("inetnot")
def inetnot(value: str) -> str:
    address = parse_address(value)
    return inet_text(address._replace(number=(1 << address.size) - 1 - address.number))


def _moved(value: str, by: int) -> str:
    address = parse_address(value)
    number = address.number + by
    if not 0 <= number < 1 << address.size:
        raise PgError("22003", "result is out of range")
    return inet_text(address._replace(number=number))


implements("inetpl")(_moved)
implements("inetmi_int8")(lambda value, by: _moved(value, -by))
implements("int8pl_inet(bigint,inet)")(lambda by, value: _moved(value, by))


@implements("inetmi")
def inetmi(one: str, two: str) -> int:
    a, b = parse_address(one), parse_address(two)
    if a.version != b.version:
        raise PgError("22023", "cannot subtract inet values of different sizes")
    difference = a.number - b.number
    if not -(1 << 63) <= difference < 1 << 63:
        raise PgError("22003", "result is out of range")
    return difference


implements("macaddr_trunc")(lambda value: value[:9] + "00:00:00")
implements("macaddr8_trunc")(lambda value: value[:9] + "00:00:00:00:00")
implements("macaddr8_set7bit")(lambda value: f"{int(value[:2], 16) | 2:02x}" + value[2:])
implements("macaddrtomacaddr8")(lambda value: f"{value[:8]}:ff:fe:{value[9:]}")


@implements("macaddr8tomacaddr")
def macaddr8tomacaddr(value: str) -> str:
    if value[9:14] != "ff:fe":
        raise PgError(
            "22003",
            "macaddr8 data out of range to convert to macaddr",
            hint="Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example "
            "xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
        )
    return value[:9] + value[15:]


def _mac_bitwise(word: str, function: Callable[[int, int], int]) -> None:
    def compute(one: str, two: str) -> str:
        pairs = zip(one.split(":"), two.split(":"), strict=True)
        return ":".join(f"{function(int(a, 16), int(b, 16)):02x}" for a, b in pairs)

    implements(f"macaddr_{word}", f"macaddr8_{word}")(compute)


_mac_bitwise("and", operator.and_)
_mac_bitwise("or", operator.or_)


@implements("macaddr_not", "macaddr8_not")
def macaddr_not(value: str) -> str:
    return ":".join(f"{255 - int(part, 16):02x}" for part in value.split(":"))
