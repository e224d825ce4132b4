"""Overload resolution: which functions or operators of a name fit the arguments, and which one fits best
(parse_func.c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context
from pgrepl.expr.coerce import can_coerce
from pgrepl.expr.scope import Scope
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import Proc

MAX_ARGUMENTS = 100  # FUNC_MAX_ARGS


@frozen
class Candidate:
    """A function or operator that may be meant. oid 0: several have the same parameters, so that none can be chosen."""

    oid: int
    args: tuple[int, ...]  # as many as the call has arguments, or more: then defaults fill them
    variadic: int = 0  # arguments that the VARIADIC parameter takes
    defaults: int = 0
    schema: str = ""
    numbers: tuple[int, ...] | None = None  # the parameter each argument goes to, in a call with named arguments


def too_many_arguments(location: int) -> PgError:
    message = f"cannot pass more than {MAX_ARGUMENTS} arguments to a function"
    return PgError("54023", message, location=location)


def function_candidates(
    procs: Sequence[Proc], nargs: int, names: Sequence[str], *, expand_variadic: bool
) -> list[Candidate]:
    """The functions that a call with this number of arguments and these argument names can mean; `procs` in the order
    of the search path (FuncnameGetCandidates)."""
    found: list[Candidate] = []
    for proc in procs:
        candidate = _candidate(proc, nargs, names, expand_variadic)
        if candidate is None:
            continue
        own = candidate.args[: len(candidate.args) - candidate.defaults]
        same = next((c for c in found if c.args[: len(c.args) - c.defaults] == own), None)
        if same is not None:
            if candidate.schema != same.schema or (candidate.variadic and not same.variadic):
                continue
            found.remove(same)
            if bool(candidate.variadic) == bool(same.variadic):
                candidate = replace(same, oid=0)
        found.append(candidate)
    return found


def _candidate(proc: Proc, nargs: int, names: Sequence[str], expand_variadic: bool) -> Candidate | None:
    declared = proc.nargs
    if names and proc.variadic and expand_variadic:
        return None
    variadic = bool(proc.variadic) and expand_variadic and declared <= nargs
    defaults = max(declared - nargs, 0)
    if defaults > proc.ndefaults or (declared < nargs and not variadic):
        return None
    numbers = None
    args = list(proc.argtypes)
    if names:
        numbers = _numbers(proc, nargs, names)
        if numbers is None:
            return None
        args = [args[number] for number in numbers]
    taken = 0
    if variadic:
        taken = nargs - declared + 1
        args[declared - 1 :] = [proc.variadic] * taken
    return Candidate(proc.oid, tuple(args), taken, defaults, proc.schema, numbers)


def _numbers(proc: Proc, nargs: int, names: Sequence[str]) -> tuple[int, ...] | None:
    """The parameter number of each argument, then of each default (MatchNamedCall)."""
    if proc.argnames is None:
        return None
    inputs = [
        name
        for number, name in enumerate(proc.argnames)
        if proc.argmodes is None or proc.argmodes[number] in ("i", "b", "v")
    ]
    positional = nargs - len(names)
    numbers = list(range(positional))
    for name in names:
        if name not in inputs:
            return None
        number = inputs.index(name)
        if number in numbers:
            return None
        numbers.append(number)
    for number in range(positional, proc.nargs):
        if number not in numbers[:nargs]:
            if number < proc.nargs - proc.ndefaults:
                return None
            numbers.append(number)
    return tuple(numbers)


def coercible(scope: Scope, args: Sequence[int], candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates whose parameter types the arguments can be cast to implicitly (func_match_argtypes)."""
    given = tuple(args)
    return [c for c in candidates if can_coerce(given, c.args[: len(given)], Context.IMPLICIT, scope)]


def select(args: Sequence[int], candidates: Sequence[Candidate]) -> Candidate | None:
    """The best of several candidates; None: none is best (func_select_candidate)."""
    if len(args) > MAX_ARGUMENTS:
        raise too_many_arguments(-1)
    given = [oids.UNKNOWN if t == oids.UNKNOWN else typefacts.base(t) for t in args]
    known = [i for i, t in enumerate(given) if t != oids.UNKNOWN]
    unknown = [i for i, t in enumerate(given) if t == oids.UNKNOWN]

    left = _most(candidates, lambda c: sum(c.args[i] == given[i] for i in known))
    if len(left) == 1:
        return left[0]
    categories = [typefacts.category(t) for t in given]
    left = _most(
        left,
        lambda c: sum(c.args[i] == given[i] or typefacts.is_preferred(categories[i], c.args[i]) for i in known),
    )
    if len(left) == 1:
        return left[0]
    if not unknown:
        return None

    slots = [_slot(left, i) for i in unknown]
    if all(slot is not None for slot in slots):
        kept = [c for c in left if all(_fits_slot(c.args[i], slot) for i, slot in zip(unknown, slots, strict=True))]
        left = kept or left
        if len(kept) == 1:
            return kept[0]

    types = {given[i] for i in known}
    if len(types) == 1:
        same = tuple(types) * len(given)
        fitting = [c for c in left if can_coerce(same, c.args[: len(same)], Context.IMPLICIT)]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _most(candidates: Sequence[Candidate], matches: Callable[[Candidate], int]) -> list[Candidate]:
    counts = [matches(c) for c in candidates]
    best = max(counts)
    return [c for c, count in zip(candidates, counts, strict=True) if count == best]


def _slot(candidates: Sequence[Candidate], position: int) -> tuple[str, bool] | None:
    """The type category assumed for an argument of unknown type, and whether a candidate has that category's preferred
    type there. The string category wins over others; None: the candidates disagree otherwise."""
    category, has_preferred, conflict = "", False, False
    for candidate in candidates:
        typoid = candidate.args[position]
        own = typefacts.category(typoid)
        if not category or (own != category and own == typefacts.STRING_CATEGORY):
            category, has_preferred = own, typefacts.preferred(typoid)
        elif own == category:
            has_preferred |= typefacts.preferred(typoid)
        else:
            conflict = True
    return None if conflict and category != typefacts.STRING_CATEGORY else (category, has_preferred)


def _fits_slot(typoid: int, slot: tuple[str, bool] | None) -> bool:
    assert slot is not None
    category, has_preferred = slot
    return typefacts.category(typoid) == category and (typefacts.preferred(typoid) or not has_preferred)
