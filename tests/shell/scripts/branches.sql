\if true
\echo 1
\elif true
\echo 2
\else
\echo 3
\endif
\if false
\echo 1
\elif yes
\echo 2
\else
\echo 3
\endif
\if foo bar
\echo x
\else
\echo y
\endif
\if
\endif
\elif x
\else
\endif
\if 1
\else
\else
\elif 1
\endif
-- nothing in a branch that is not taken runs, whatever it is
\if 0
  \if 1
  \echo no
  \else
  \echo no
  \endif
  \set x `echo ran >&2`
  \foo
  \echo :bar 'unterminated
  \i nofile
  \! echo no
  \o nofile
  \x y z
  \g (format=csv) file
  select 1/0;
  \gset nothing
  \h select
\endif
\echo :x
\if 1 \echo a \\ \echo b
\endif
\if true \\ \echo c \\ \endif \echo d
-- a branch in the middle of a statement
select 1 as
\if true
  yes
\else
  no (
\endif
;
select
\if 0
 (((
\elif 1
 1 as elif
\else
 'quote
\endif
;
\set ON_ERROR_STOP 1
\if :{?ON_ERROR_STOP}
\echo set
\endif
\if :{?NO_SUCH_VARIABLE}
\echo set
\else
\echo unset
\endif
\unset ON_ERROR_STOP
\if maybe
\echo no
\endif
\if `echo true`
\echo from the shell
\endif
\if t
