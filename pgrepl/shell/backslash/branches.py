r"""`\if`, `\elif`, `\else`, `\endif`, which run in branches that are not taken, too."""

from __future__ import annotations

from pgrepl.shell.backslash.command import BackslashCommand, command
from pgrepl.shell.conditional import Branch
from pgrepl.shell.variables import parse_bool


@command("if", always=True)
def begin(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if not stack.active:
        stack.push(Branch.IGNORED)
        _remember(c)
        c.words()
        return True
    stack.push(Branch.TRUE)
    _remember(c)
    if not _is_true(c, "\\if expression"):
        stack.turn(Branch.FALSE)
    return True


@command("elif", always=True)
def otherwise_if(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if stack.branch is Branch.TRUE:
        _remember(c)
        stack.turn(Branch.IGNORED)
        c.words()
    elif stack.branch is Branch.FALSE:
        _discard(c)
        stack.turn(Branch.TRUE)
        if not _is_true(c, "\\elif expression"):
            stack.turn(Branch.FALSE)
    elif stack.branch is Branch.IGNORED:
        _discard(c)
        c.words()
    else:
        return _misplaced(c)
    return True


@command("else", always=True)
def otherwise(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if stack.branch is Branch.TRUE:
        _remember(c)
        stack.turn(Branch.ELSE_FALSE)
    elif stack.branch in (Branch.FALSE, Branch.IGNORED):
        _discard(c)
        stack.turn(Branch.ELSE_TRUE if stack.branch is Branch.FALSE else Branch.ELSE_FALSE)
    else:
        return _misplaced(c)
    return True


@command("endif", always=True)
def end(c: BackslashCommand) -> bool:
    stack = c.shell.conditionals
    if not stack:
        return _misplaced(c)
    if not stack.active:
        _discard(c)
    stack.pop()
    return True


def _misplaced(c: BackslashCommand) -> bool:
    problem = "cannot occur after \\else" if c.shell.conditionals else "no matching \\if"
    c.shell.error(f"\\{c.name}: {problem}")
    return False


def _is_true(c: BackslashCommand, what: str) -> bool:
    expression = " ".join(c.words())
    value = parse_bool(expression)
    if value is None:
        c.shell.error(f'unrecognized value "{expression}" for "{what}": Boolean expected')
    return bool(value)


def _remember(c: BackslashCommand) -> None:
    length = len(c.query) if c.query is not None else None
    c.shell.conditionals.remember(length, c.lexer.save())


def _discard(c: BackslashCommand) -> None:
    """Drop the query text of the branch that was skipped."""
    length, lexer = c.shell.conditionals.remembered()
    if c.query is not None and length is not None:
        c.query.text = c.query.text[:length]
    if lexer is not None:
        c.lexer.restore(lexer)
