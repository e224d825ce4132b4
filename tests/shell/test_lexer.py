"""Where statements end, and what becomes of variables in them."""

from __future__ import annotations

import pytest

from pgrepl.shell.scripts.lexer import Lexer, Prompt, Quoting, Stop

VALUES = {
    "x": "1",
    "word": "select 2;",
    "deep": ":x + :x",
    "loop": ":loop!",
    "other": ":again",
    "again": ":other",
    "empty": "",
}


class Scan:
    """Lines through a lexer: the queries they make, and the prompt after each line."""

    def __init__(self, *lines: str, standard_strings: bool = True) -> None:
        self.warnings: list[str] = []
        self.queries: list[str] = []
        self.prompts: list[Prompt] = []
        self.slashes: list[str] = []
        self.copies: list[int] = []
        lexer = self.lexer = Lexer(self.lookup, self.warnings.append, standard_strings)
        for line in lines:
            if lexer.query:
                lexer.query.append("\n")
            lexer.begin(line)
            while True:
                stop, prompt = lexer.scan()
                if stop is Stop.SEMICOLON:
                    self.copies.append(lexer.count_copies())
                    self.queries.append(lexer.query.text)
                    lexer.query.text = ""
                    lexer.reset()
                elif stop is Stop.BACKSLASH:
                    self.slashes.append(lexer.sources[-1].text[lexer.sources[-1].at :])
                    break
                else:
                    break
            self.prompts.append(prompt)
            lexer.finish()

    def lookup(self, name: str, quoting: Quoting) -> str | None:
        value = VALUES.get(name)
        if value is None or quoting == "plain":
            return value
        return f"'{value}'" if quoting == "literal" else f'"{value}"'

    @property
    def left(self) -> str:
        return self.lexer.query.text


@pytest.mark.parametrize(
    "query",
    [
        "select 1;",
        "select ';';",
        "select ';' ';';",
        "select 'it''s;';",
        "select E'\\';' ';';",
        "select e'\\\\';",
        "select U&'\\0041;';",
        "select b'01;', x'a;', n';';",
        'select ";" ";""";',
        'select U&";";',
        "select $$;$$;",
        "select $a$;$$;$b$;$a$;",
        "select a$b$;",
        "select 1a$a$;",
        "select $1;",
        "select 1e5$$;",
        "select 1..2;",
        "select 1.5e+3, .5, 1_000, 0xff_ff, 0b01;",
        "select /* ; /* ; */ ; */ 1;",
        "select 1 -- ; '\n;",
        "select @-/* ; */ 1;",
        "select a(';', (1;2));",
        "create function f() returns int begin atomic select 1; select case when true then 1 end; end;",
        "create or replace procedure p() begin atomic select 1; end;",
        "select 'été;', \"été\" é;",
        "select a::int, a:=1;",
    ],
)
def test_a_semicolon_ends_a_statement_only_outside_quotes_and_parentheses(query: str) -> None:
    assert Scan(*query.split("\n")).queries == [query]


@pytest.mark.parametrize(
    ("line", "left", "prompt"),
    [
        ("", "", Prompt.READY),
        ("   -- only a comment", "", Prompt.READY),
        ("select", "select", Prompt.CONTINUE),
        ("select 'a", "select 'a", Prompt.SINGLE_QUOTE),
        ("select E'a\\'", "select E'a\\'", Prompt.SINGLE_QUOTE),
        ("select b'1", "select b'1", Prompt.SINGLE_QUOTE),
        ('select "a', 'select "a', Prompt.DOUBLE_QUOTE),
        ("select $$a", "select $$a", Prompt.DOLLAR_QUOTE),
        ("select $x$ $$", "select $x$ $$", Prompt.DOLLAR_QUOTE),
        ("select (1;", "select (1;", Prompt.PAREN),
        ("select /* /* */", "select /* /* */", Prompt.COMMENT),
        ("create function f() begin atomic select 1;", "create function f() begin atomic select 1;", Prompt.CONTINUE),
        ("select 1)", "select 1)", Prompt.CONTINUE),
        ("  /* c */ select", "/* c */ select", Prompt.CONTINUE),
    ],
)
def test_the_prompt_says_what_is_open(line: str, left: str, prompt: Prompt) -> None:
    scan = Scan(line)
    assert (scan.queries, scan.left, scan.prompts) == ([], left, [prompt])


def test_quotes_and_comments_run_over_lines() -> None:
    scan = Scan("select 'a", "b;' as x, /*", ";*/ $$", ";$$;")
    assert scan.queries == ["select 'a\nb;' as x, /*\n;*/ $$\n;$$;"]
    assert scan.prompts == [Prompt.SINGLE_QUOTE, Prompt.COMMENT, Prompt.DOLLAR_QUOTE, Prompt.READY]


def test_several_statements_on_a_line() -> None:
    scan = Scan("select 1; select 2;select", "3;")
    assert scan.queries == ["select 1;", "select 2;", "select\n3;"]


def test_a_forced_semicolon_joins_statements() -> None:
    scan = Scan("select 1\\; select 2; select \\:x;")
    assert scan.queries == ["select 1; select 2;", "select :x;"]


def test_a_backslash_starts_a_command() -> None:
    scan = Scan("select 1 \\g file", "select 'a\\b'")
    assert (scan.slashes, scan.left) == (["g file"], "select 1 \nselect 'a\\b'")


def test_variables() -> None:
    scan = Scan("select :x, :'x', :\"x\", :{?x}, :{?y}, :y, :'y', x::x, ':x', \":x\", $$:x$$ -- :x", ";")
    assert scan.queries == ["select 1, '1', \"1\", TRUE, FALSE, :y, :'y', x::x, ':x', \":x\", $$:x$$ -- :x\n;"]
    assert Scan("select a[1:2], b ? c, d:e, :{?, :'x, :\"x, : x;").queries == []
    assert Scan("select a[:x:2];").queries == ["select a[1:2];"]


def test_values_are_scanned_too() -> None:
    assert Scan(":word :word").queries == ["select 2;", "select 2;"]
    assert Scan("select :deep;").queries == ["select 1 + 1;"]
    assert Scan("select :empty;").queries == ["select ;"]


def test_a_variable_inside_itself_is_left_alone() -> None:
    scan = Scan("select :loop, :other;")
    assert scan.queries == ["select :loop!, :other;"]
    assert scan.warnings == [
        'skipping recursive expansion of variable "loop"',
        'skipping recursive expansion of variable "other"',
    ]


def test_backslashes_in_plain_quotes_when_strings_are_not_standard() -> None:
    assert Scan("select 'a\\';' ;", standard_strings=False).queries == ["select 'a\\';' ;"]
    assert Scan("select 'a\\';' ;").queries == ["select 'a\\';"]


def test_copies_from_standard_input_are_counted() -> None:
    scan = Scan(
        "copy t from stdin; copy t from 'file'; copy t (a) from STDOUT with csv;",
        "copy t to stdin; select copy from stdin; copy binary a.b.t from stdin\\; copy t from stdin;",
    )
    assert scan.copies == [1, 0, 1, 0, 0, 2]


def test_a_trial_changes_nothing() -> None:
    lexer = Scan("select ('a").lexer
    trial = lexer.copy()
    trial.begin("'); select 2; (")
    assert trial.scan()[0] is Stop.SEMICOLON
    assert (lexer.state, lexer.paren_depth, lexer.query.text) == ("xq", 1, "select ('a")


def test_much_white_space_behind_a_string_takes_no_time() -> None:
    query = "select 'a' " + "-- " * 200 + "\n" + " " * 2_000 + "x;"
    assert Scan(query).queries == [query]
