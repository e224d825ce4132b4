"""PostgreSQL's regular expressions, matched by finite automata: without back references, in polynomial time.

    scanner   a pattern's characters as tokens (regc_lex.c)
    syntax    what is matched: the nodes of a regular language with constraints
    charsets  sets of characters: classes, ranges, either case
    parser    tokens → a tree of parts, each with its language and its preference for long or short (regcomp.c)
    nfa, dfa  a language as states; the states that a text leads to, computed when it comes to them
    dissect   where the groups of a match stand, as PostgreSQL finds them (regexec.c)
    matching  what callers ask: Regex, its search, its Match
    native    what Python's own engine plays as well, and in linear time

A match begins as far left as it can. Its end, and its groups', follow the preferences of the tree: the whole's first,
then those of its parts from left to right.
"""
