"""PostgreSQL's regular expressions, matched by finite automata: without back references, in polynomial time.

    scanner   a pattern's characters as tokens (regc_lex.c)
    syntax    what is matched: the nodes of a regular language with constraints
    charsets  sets of characters: classes, ranges, either case
    parser    tokens → a tree of parts, each with its language and its preference for long or short (regcomp.c)
    nfa, dfa  a language as states; the DFA's states are computed when a text first reaches them
    dissect   the positions of a match's groups, as PostgreSQL finds them (regexec.c)
    matching  the interface: Regex, its search, its Match
    native    patterns that Python's own engine matches with the same result, in bounded time

A match begins as far left as possible. The ends of the match and of its groups follow the preferences of the tree:
first of the whole, then of its parts from left to right.
"""
