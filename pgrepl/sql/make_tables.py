"""Makes `tables.bin` and `plpgsql.bin` from the grammars, when the package is built (hatch_build.py) or by
`make tables`.

Lark reads the grammar files and computes the LALR(1) look-aheads; the rules of precedence are yacc's and live here, as
Lark has none: where it sees a conflict it silently shifts. A conflict that no precedence decides is an error.

The file's directives, which Lark does not know, are `%left`, `%right`, `%nonassoc` (each line binds tighter than the
ones before it), `%statement rule …`, which adds alternatives to the rule `statement`, and `%prec TERMINAL` before an
alternative's action: it takes the precedence of TERMINAL instead of that of its own last terminal.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lark.common import ParserConf
from lark.grammar import Rule
from lark.load_grammar import load_grammar
from lark.parsers.lalr_analysis import LALR_Analyzer, digraph

from pgrepl.sql import actions
from pgrepl.sql.actions import ACTION, translate
from pgrepl.sql.keywords import AS_LABEL, KEYWORDS, RESERVED, UNRESERVED, KeywordClass
from pgrepl.sql.parser import ACCEPT, PATH, PLPGSQL, PackedRow, PackedRule, Row, Tables, TokenClass, load, pack

GRAMMAR = Path(__file__).parents[2] / "grammar"
STARTS = (
    "parse_toplevel",
    "parse_expression",
    "parse_type_name",
    "parse_plpgsql_expression",
    "parse_plpgsql_assignment",
)

_PUNCTUATION = frozenset(
    """COMMA LPAR RPAR LSQB RSQB DOT SEMICOLON COLON PLUS MINUS STAR SLASH PERCENT CIRCUMFLEX LESSTHAN MORETHAN
    EQUAL""".split()
)
TERMINALS = frozenset(map(str.upper, KEYWORDS)).union(
    "IDENT ICONST FCONST SCONST BCONST XCONST PARAM OP".split(),
    "NOT_LA NULLS_LA WITH_LA WITHOUT_LA FORMAT_LA".split(),
    "TYPECAST DOT_DOT COLON_EQUALS EQUALS_GREATER LESS_EQUALS GREATER_EQUALS NOT_EQUALS".split(),
    _PUNCTUATION,
)
"""What the scanner gives."""
PLPGSQL_TERMINALS = frozenset(map(str.upper, RESERVED + UNRESERVED)).union(
    "T_WORD T_CWORD T_DATUM ICONST FCONST SCONST BCONST XCONST OP LESS_LESS GREATER_GREATER COLON_EQUALS HASH".split(),
    _PUNCTUATION,
)
"""What PL/pgSQL's scanner gives (pgrepl/plpgsql/compilation.py)."""

_DIRECTIVE = re.compile(r"^%(left|right|nonassoc|statement)\b(.*)$", re.M)
_ACTION = re.compile(rf"(?:%prec (\w+))?\s*{ACTION}")
_KEYWORD_RULES = {
    KeywordClass.UNRESERVED: "unreserved_keyword",
    KeywordClass.COL_NAME: "col_name_keyword",
    KeywordClass.TYPE_FUNC_NAME: "type_func_name_keyword",
    KeywordClass.RESERVED: "reserved_keyword",
}


class GrammarConflict(Exception):
    """The grammar is ambiguous for one token of look-ahead, or says something the builders could not follow."""


@dataclass
class Grammar:
    """The grammar as one text for Lark, with the directives taken out."""

    text: str
    precedence: dict[str, tuple[int, str]] = field(default_factory=dict)  # terminal → (level, associativity)
    overrides: dict[str, str] = field(default_factory=dict)  # alias → terminal
    actions: dict[str, str] = field(default_factory=dict)  # alias → action


def source() -> str:
    """All files of the grammar and the key words' terminals and classes, joined."""
    return "\n".join([*_files(GRAMMAR), keyword_rules()])


def plpgsql_source() -> str:
    """The grammar of PL/pgSQL with its key words."""
    lines = [f'{word.upper()}: "{word.upper()}"' for word in RESERVED + UNRESERVED]
    return "\n".join([*_files(GRAMMAR / "plpgsql"), *lines, _choice("unreserved_keyword", UNRESERVED), ""])


def _files(folder: Path) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(folder.glob("*.lark"))]


def keyword_rules() -> str:
    lines = [f'{word.upper()}: "{word.upper()}"' for word in KEYWORDS]
    for kind, rule in _KEYWORD_RULES.items():
        lines.append(_choice(rule, (word for word, of in KEYWORDS.items() if of is kind)))
    lines.append(_choice("bare_label_keyword", (word for word in KEYWORDS if word not in AS_LABEL)))
    return "\n".join(lines) + "\n"


def _choice(rule: str, words: Any) -> str:
    return f"!{rule}: " + "\n  | ".join(f'"{word.upper()}"' for word in words)


def fingerprint(text: str) -> str:
    """The fingerprint by which tables are compared: of the grammar, the fields of the nodes in it, and the way in which
    tables are made."""
    modules = b"".join(Path(path).read_bytes() for path in (__file__, actions.__file__))
    return hashlib.sha256("\n".join([text, *actions.declarations(text)]).encode() + modules).hexdigest()


def read_directives(text: str) -> Grammar:
    grammar = Grammar(_DIRECTIVE.sub("", text))
    statements: list[str] = []
    level = 0
    for kind, rest in _DIRECTIVE.findall(text):
        words = rest.split("//")[0].split()
        if kind == "statement":
            statements += words
            continue
        level += 1
        for word in words:
            if word in grammar.precedence:
                raise GrammarConflict(f"{word} has two precedences")
            grammar.precedence[word] = (level, kind)
    if statements:
        grammar.text += "statement: " + "\n  | ".join(statements) + "\n"
    with_aliases(grammar)
    return grammar


def with_aliases(grammar: Grammar) -> None:
    """Put an alias in place of each action, as Lark knows no more than a word."""
    known: dict[tuple[str, str], str] = {}

    def alias(match: re.Match[str]) -> str:
        terminal, action = key = match[1] or "", match[2].rstrip()
        word = known.setdefault(key, f"action_{len(known)}")
        grammar.actions[word] = action
        if terminal:
            grammar.overrides[word] = terminal
        return f" -> {word}"

    grammar.text = _ACTION.sub(alias, grammar.text)


class YaccAnalyzer(LALR_Analyzer):
    """Lark's LALR(1) with yacc's precedence. `actions` holds a dict for each state: symbol name → action."""

    def __init__(self, conf: ParserConf, grammar: Grammar) -> None:
        self._expanded: dict[Any, frozenset[Any]] = {}
        super().__init__(conf)
        self.grammar = grammar
        self.actions: list[Row] = []
        self.rules: list[Rule] = []
        self.start_numbers: dict[str, int] = {}

    def expand_rule(self, source_rule: Any, rules_by_origin: Any = None) -> Any:
        """As Lark's, but each rule is expanded once: there are many times as many states."""
        key = source_rule, rules_by_origin is None
        if key not in self._expanded:
            self._expanded[key] = frozenset(super().expand_rule(source_rule, rules_by_origin))
        return self._expanded[key]

    def rule_precedence(self, rule: Rule) -> tuple[int, str] | None:
        if rule.alias in self.grammar.overrides:
            return self.grammar.precedence[self.grammar.overrides[rule.alias]]
        terminals = [symbol.name for symbol in rule.expansion if symbol.is_term]
        return self.grammar.precedence.get(terminals[-1]) if terminals else None

    def shifts(self, rule: Rule, terminal: str) -> bool | None:
        """True to shift, False to reduce, None for an error (nonassoc)."""
        of_rule, of_terminal = self.rule_precedence(rule), self.grammar.precedence.get(terminal)
        if of_rule is None or of_terminal is None:
            raise GrammarConflict(f"shift/reduce at {terminal}: {rule}")
        if of_rule[0] != of_terminal[0]:
            return of_rule[0] < of_terminal[0]
        return {"right": True, "left": False, "nonassoc": None}[of_terminal[1]]

    def compute_includes_lookback(self) -> None:
        """As Lark's, but a state's rules are found by what they make, not by trying all of them for each transition."""
        of_state: dict[int, dict[Any, list[Rule]]] = {}
        for state in self.lr0_itemsets:
            by_origin = of_state[id(state)] = defaultdict(list)
            for item in state.closure:
                if item.index == 0:
                    by_origin[item.rule.origin].append(item.rule)
        for transition in self.nonterminal_transitions:
            state, nonterminal = transition
            for rule in of_state[id(state)][nonterminal]:
                steps = []
                to = state
                for symbol in rule.expansion:
                    steps.append((to, symbol))
                    to = to.transitions[symbol]
                self.lookback[transition].add((to, rule))
                for step in reversed(steps):
                    if not step[1].is_term:
                        self.includes[step].add(transition)
                    if step[1] not in self.NULLABLE:
                        break

    def compute_lookaheads(self) -> None:
        """As Lark's, but each rule's look-aheads in a state are joined first: most are found many times."""
        read_sets = digraph(self.nonterminal_transitions, self.reads, self.directly_reads)  # type: ignore[no-untyped-call]
        follow_sets = digraph(self.nonterminal_transitions, self.includes, read_sets)  # type: ignore[no-untyped-call]
        lookaheads: defaultdict[Any, set[Any]] = defaultdict(set)
        for transition, lookbacks in self.lookback.items():
            for lookback in lookbacks:
                lookaheads[lookback] |= follow_sets[transition]
        for (state, rule), terminals in lookaheads.items():
            for terminal in terminals:
                state.lookaheads[terminal].add(rule)

    def compute_lalr1_states(self) -> None:
        states = self.in_order()
        numbers = {id(state): number for number, state in enumerate(states)}
        rule_numbers: dict[Rule, int] = {}
        conflicts: list[str] = []
        for state in states:
            actions: Row = {symbol.name: numbers[id(to)] for symbol, to in transitions(state)}
            for terminal, rules in sorted(state.lookaheads.items(), key=lambda item: item[0].name):
                if len(rules) > 1:
                    conflicts.append(f"reduce/reduce at {terminal.name}: " + " // ".join(sorted(map(str, rules))))
                rule = next(iter(rules))
                shifts: bool | None = False
                if terminal.name in actions:
                    try:
                        shifts = self.shifts(rule, terminal.name)
                    except GrammarConflict as conflict:
                        conflicts.append(str(conflict))
                if shifts is None:
                    actions[terminal.name] = None
                elif not shifts:
                    actions[terminal.name] = -1 - rule_numbers.setdefault(rule, len(rule_numbers))
            self.actions.append(actions)
        if conflicts:
            raise GrammarConflict(f"{len(conflicts)} conflicts:\n" + "\n".join(conflicts))
        self.rules = list(rule_numbers)
        for start, root in self.lr0_start_states.items():
            self.start_numbers[start] = numbers[id(root)]
            end = next(to for symbol, to in root.transitions.items() if symbol.name == start)
            self.actions[numbers[id(end)]]["$END"] = ACCEPT

    def in_order(self) -> list[Any]:
        """The states in an order that does not depend on how Python hashes."""
        states = list(self.lr0_start_states.values())
        seen = {id(state) for state in states}
        for state in states:
            for _, to in transitions(state):
                if id(to) not in seen:
                    seen.add(id(to))
                    states.append(to)
        return states


def transitions(state: Any) -> list[tuple[Any, Any]]:
    return sorted(state.transitions.items(), key=lambda item: str(item[0].name))


def make(text: str, starts: tuple[str, ...] = STARTS, terminals: frozenset[str] = TERMINALS) -> Tables:
    grammar = read_directives(text)
    lark_grammar, _ = load_grammar(grammar.text, "grammar", [], False)  # type: ignore[no-untyped-call]
    _, rules, _ = lark_grammar.compile(list(starts), "*")
    check_terminals(rules, terminals)
    share_symbols(rules)
    analyzer = YaccAnalyzer(ParserConf(rules, {}, list(starts)), grammar)
    analyzer.compute_lalr()  # type: ignore[no-untyped-call]
    return compact(analyzer, fingerprint(text))


def share_symbols(rules: list[Rule]) -> None:
    """Make equal symbols the same object, which sets compare much faster."""
    symbols: dict[tuple[str, bool, bool], Any] = {}

    def shared(symbol: Any) -> Any:
        symbol.name = sys.intern(str(symbol.name))
        return symbols.setdefault((symbol.name, symbol.is_term, symbol.is_term and symbol.filter_out), symbol)

    for rule in rules:
        rule.origin = shared(rule.origin)
        rule.expansion = [shared(symbol) for symbol in rule.expansion]


def check_terminals(rules: list[Rule], terminals: frozenset[str]) -> None:
    """A misspelt literal would silently become a terminal that the scanner never gives."""
    for rule in rules:
        for symbol in rule.expansion:
            if symbol.is_term and symbol.name not in terminals:
                raise GrammarConflict(f"the scanner has no {symbol.name}: {rule}")


def children(rule: Rule) -> tuple[int, ...]:
    """The positions of a rule's children on the value stack, counted from its top; 0 is None, for an absent
    [option]."""
    symbols: list[tuple[int, Any]] = list(enumerate(rule.expansion, -len(rule.expansion)))
    if rule.options.empty_indices:
        places = iter(symbols)
        symbols = [(0, None) if absent else next(places) for absent in rule.options.empty_indices]
    return tuple(place for place, symbol in symbols if symbol is None or not (symbol.is_term and symbol.filter_out))


def packed_rule(rule: Rule, numbers: dict[str, int], actions: dict[str, str]) -> PackedRule:
    kept = children(rule)
    if rule.alias is None and len(kept) != 1:
        raise GrammarConflict(f"an alternative with {len(kept)} children needs an action: {rule}")
    length = len(rule.expansion)
    return numbers[rule.origin.name], length, translate(actions[rule.alias], length, kept) if rule.alias else kept[0]


def compact(analyzer: YaccAnalyzer, mark: str) -> Tables:
    nonterminals = sorted({str(rule.origin.name) for rule in analyzer.rules})
    numbers = {name: number for number, name in enumerate(nonterminals)}
    rules = [packed_rule(rule, numbers, analyzer.grammar.actions) for rule in analyzer.rules]
    skip_unit_rules(analyzer, rules, nonterminals)
    live = reachable(analyzer)
    actions = [analyzer.actions[state] for state in live]
    used = sorted({-1 - action for row in actions for action in row.values() if action is not None and action < 0})
    moved: dict[int | None, int | None] = {None: None, ACCEPT: ACCEPT}
    moved.update((old, new) for new, old in enumerate(live))
    moved.update((-1 - old, -1 - new) for new, old in enumerate(used))
    actions = [{symbol: moved[action] for symbol, action in row.items()} for row in actions]
    gotos = [pack_gotos(actions, name) for name in nonterminals]
    terminal_rows = [{name: action for name, action in row.items() if name not in numbers} for row in actions]
    classes, packed = pack_rows(terminal_rows)
    starts = {start: live.index(number) for start, number in analyzer.start_numbers.items()}
    return Tables(mark, starts, classes, packed, gotos, [rules[number] for number in used])


def lone_reduction(row: Row) -> int | None:
    """The action of a state that reduces by one rule whatever comes."""
    actions = set(row.values())
    action = next(iter(actions), None)
    return action if len(actions) == 1 and action is not None and action < 0 else None


def skip_unit_rules(analyzer: YaccAnalyzer, rules: list[PackedRule], names: list[str]) -> None:
    """Go past states that would only hand a child on (`a_expr: c_expr`), straight to where that leads."""
    reductions = [lone_reduction(row) for row in analyzer.actions]
    for row in analyzer.actions:
        for symbol, action in row.items():
            while action is not None and 0 <= action < ACCEPT:
                reduction = reductions[action]
                if reduction is None:
                    break
                nonterminal, length, action_of_rule = rules[-1 - reduction]
                if length != 1 or not isinstance(action_of_rule, int):
                    break
                action = row[symbol] = row[names[nonterminal]]


def reachable(analyzer: YaccAnalyzer) -> list[int]:
    states = list(analyzer.start_numbers.values())
    seen = set(states)
    for state in states:
        for action in analyzer.actions[state].values():
            if action is not None and 0 <= action < ACCEPT and action not in seen:
                seen.add(action)
                states.append(action)
    return states


def pack_gotos(actions: list[Row], name: str) -> tuple[dict[int, int], int]:
    targets = {state: to for state, row in enumerate(actions) if (to := row.get(name)) is not None}
    usual = Counter(targets.values()).most_common(1)[0][0] if targets else 0
    return {state: to for state, to in targets.items() if to != usual}, usual


def pack_rows(rows: list[Row]) -> tuple[list[TokenClass], list[PackedRow | int]]:
    """Rows as layers and exceptions. Most of a row are classes of key words that lead to one state: a layer each."""
    whole = [(lone_reduction(row), *without_default(row)) for row in rows]
    classes = token_classes([groups(row) for lone, row, _ in whole if lone is None])
    return list(map(tuple, map(sorted, classes))), [
        pack_row(row, default, classes) if lone is None else lone for lone, row, default in whole
    ]


def without_default(row: Row) -> tuple[Row, int | None]:
    """The most frequent reduction of a row is its default, as in bison."""
    reductions = Counter(action for action in row.values() if action is not None and action < 0)
    default = min(reductions, key=lambda action: (-reductions[action], -action)) if reductions else None
    return {name: action for name, action in row.items() if default is None or action != default}, default


Groups = dict["int | None", frozenset[str]]


def groups(row: Row) -> Groups:
    """The tokens of each action, where they are many."""
    by_action: dict[int | None, set[str]] = {}
    for name, action in row.items():
        by_action.setdefault(action, set()).add(name)
    return {action: frozenset(names) for action, names in by_action.items() if len(names) >= 8}


def token_classes(of_rows: list[Groups]) -> list[frozenset[str]]:
    """Sets of tokens such that most groups are close to one of them."""
    frequency = Counter(names for grouped in of_rows for names in grouped.values())
    classes: list[frozenset[str]] = []
    for names in sorted(frequency, key=lambda names: (-frequency[names], -len(names), sorted(names))):
        if all(len(names ^ known) > max(4, len(names) // 16) for known in classes):
            classes.append(names)
    return classes


def pack_row(row: Row, default: int | None, classes: list[frozenset[str]]) -> PackedRow:
    layers: list[tuple[int, int | None]] = []
    covered: Row = {}
    for action, names in groups(row).items():
        nearest = min(range(len(classes)), key=lambda number: (len(names ^ classes[number]), number))
        layers.append((nearest, action))
        covered.update(dict.fromkeys(classes[nearest], action))
    wanted = {name: row.get(name, default) for name in sorted(row.keys() | covered.keys())}
    exceptions = {name: action for name, action in wanted.items() if name not in covered or covered[name] != action}
    return tuple(layers), exceptions, default


def main() -> None:
    """Write the tables, unless those that are there belong to these grammars."""
    _write(PATH, source(), STARTS, TERMINALS)
    _write(PLPGSQL, plpgsql_source(), ("parse_function",), PLPGSQL_TERMINALS)


def _write(path: Path, text: str, starts: tuple[str, ...], terminals: frozenset[str]) -> None:
    if path.exists() and load(path).fingerprint == fingerprint(text):
        return
    tables = make(text, starts, terminals)
    new = path.with_suffix(f".{os.getpid()}")
    new.write_bytes(pack(tables))
    new.replace(path)  # whole at every moment: another process may be reading
    print(f"{path.name}: {len(tables.rules)} rules, {len(tables.packed_rows)} states", file=sys.stderr)


if __name__ == "__main__":
    main()
