from pglast import keywords as newer

from pgrepl.sql.keywords import AS_LABEL, KEYWORDS, TOKENS, KeywordClass

NEW_IN_18 = {"objects"}  # but for VIRTUAL, ENFORCED and PERIOD, which columns and constraints need
GONE_IN_18 = {"recheck"}


def words(kind: KeywordClass) -> set[str]:
    return {word for word, of in KEYWORDS.items() if of is kind}


def test_the_classes_are_those_of_postgresql_17() -> None:
    assert len(KEYWORDS) == 494
    assert words(KeywordClass.RESERVED) == newer.RESERVED_KEYWORDS
    assert words(KeywordClass.COL_NAME) == newer.COL_NAME_KEYWORDS
    assert words(KeywordClass.TYPE_FUNC_NAME) == newer.TYPE_FUNC_NAME_KEYWORDS
    assert words(KeywordClass.UNRESERVED) == newer.UNRESERVED_KEYWORDS - NEW_IN_18 | GONE_IN_18


def test_the_words_that_need_as_before_them_are_few() -> None:
    assert len(AS_LABEL) == 39 and KEYWORDS.keys() > AS_LABEL
    assert {"year", "over"} < AS_LABEL and not AS_LABEL & {"select", "table"}


def test_every_key_word_has_a_terminal_of_its_own() -> None:
    assert TOKENS["select"] == "SELECT" and len(set(TOKENS.values())) == len(KEYWORDS)
