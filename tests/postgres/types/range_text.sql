-- a bound's text is quoted where it has what a range's own text has
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
SELECT i, textrange(chr(i), chr(i + 1)) FROM generate_series(1, 254) i;
SELECT textrange('', 'a'), textrange('a', NULL), textrange('a"b', 'a\b'), textrange('a[', 'a]', '[]'), textmultirange(textrange('[', ']'));
SELECT '["[","]")'::textrange, '[[,]'::textrange, lower('["a[b","a]b")'::textrange);
