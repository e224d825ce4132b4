"""The evaluation of a jsonpath on a document (jsonpath_exec.c). Documents and results are trees as `types.json` has
them, with `Moment` for dates and times.

    run         the state of one evaluation, and how it goes from step to step
    accessors   literals, variables, keys, elements, levels, filters
    predicates  comparisons, logic, exists, starts with, like_regex
    arithmetic  operators and signs
    methods     .type(), .size(), .double() …
    moments     .datetime(), .date() …, and how dates and times compare
    keyvalue    .keyvalue(), whose ids are places in jsonb's binary form
    search      the interface: the items, the first, whether there is one
"""
