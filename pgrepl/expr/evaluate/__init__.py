"""The evaluator: typed trees compiled into Python closures, as execExpr.c compiles them into steps. Begin with
`evaluate`."""
