"""PostgreSQL's regular expressions, matched by finite automata: without back references, in polynomial time.

    scanner   a pattern's characters as tokens (regc_lex.c)
    charsets  what is matched: sets of characters, regular languages with constraints
    parser    tokens → a tree of parts, each with its language and its preference for long or short (regcomp.c)
    automata  a language as states, computed when a text first reaches them
    dissect   the positions of a match's groups, as PostgreSQL finds them (regexec.c)
    matching  the interface: Regex, its search, its Match
    native    patterns that Python's own engine matches with the same result, in bounded time

A match begins as far left as possible. Its end and its groups follow the preferences of the tree: first of the whole,
then of its parts from left to right.
"""
