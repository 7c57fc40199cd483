"""The worked examples of docs/reference/conditions.md#examples, numbers as decision S1 has them: told to both
evaluators and to readers.
"""

from collections.abc import Sequence

MATCH, NO_MATCH = True, False

EXAMPLES: Sequence[tuple[str, str, str, str, bool]] = (
    ("EQUALS", "42", "INTEGER", "42", MATCH),
    ("EQUALS", '"42"', "INTEGER", "42", MATCH),
    ("EQUALS", "42.0", "INTEGER", "42", MATCH),  # S1, was void
    ("EQUALS", "4.2e1", "INTEGER", "42", MATCH),
    ("EQUALS", "42.0", "DOUBLE", "42", MATCH),
    ("EQUALS", "42.5", "INTEGER", "42", NO_MATCH),
    ("NOT_EQUAL", "42.5", "INTEGER", "42", MATCH),  # S1, was void
    ("NOT_EQUAL", "42.0", "INTEGER", "42", NO_MATCH),
    ("NOT_EQUAL", "99999999999", "INTEGER", "42", MATCH),  # S1, was void
    ("GREATER_THAN", "41.2", "INTEGER", "41", NO_MATCH),
    ("GREATER_THAN", "41.2", "INTEGER", "42", MATCH),
    ("LESS_THAN", "41.2", "INTEGER", "41", MATCH),
    ("LESS_THAN", "41.2", "INTEGER", "42", NO_MATCH),
    ("GREATER_OR_EQUAL", "-7.5", "INTEGER", "-7", MATCH),
    ("LESS_OR_EQUAL", "-7.5", "INTEGER", "-7", NO_MATCH),
    ("LESS_OR_EQUAL", "-7.5", "INTEGER", "-8", MATCH),
    ("LESS_THAN", "3000000000", "INTEGER", "-5", MATCH),
    ("GREATER_THAN", "3000000000", "INTEGER", "5", NO_MATCH),
    ("GREATER_THAN", "-3000000000", "INTEGER", "5", MATCH),
    ("EQUALS", "9007199254740993", "LONG", "9007199254740992", NO_MATCH),
    ("EQUALS", "9007199254740993", "LONG", "9007199254740993", MATCH),
    ("EQUALS", "0.1234567890123456", "DOUBLE", "0.1234567890123456", MATCH),  # S1, was void
    ("EQUALS", "7", "UNBOUND_DECIMAL", "7.000", MATCH),
    ("EQUALS", "17", "INTEGER STRING", "17", MATCH),
    ("EQUALS", "17", "INTEGER STRING", '"17"', MATCH),
    ("EQUALS", "17", "INTEGER STRING", '"17.0"', NO_MATCH),
    ("GREATER_THAN", "9", "INTEGER STRING", "10", MATCH),
    ("GREATER_THAN", "9", "INTEGER STRING", '"10"', NO_MATCH),
    ("NOT_EQUAL", '"x"', "INTEGER STRING", "17", NO_MATCH),
    ("EQUALS", "17", "STRING", "17", NO_MATCH),
    ("EQUALS", '"Oak"', "STRING", '"oak"', NO_MATCH),
    ("INOT_EQUAL", '"OAK"', "INTEGER", "17", NO_MATCH),
    ("CONTAINS", "7", "INTEGER", "17", NO_MATCH),
    ("CONTAINS", '""', "STRING", '"q"', MATCH),
    ("NOT_EQUAL", "true", "BOOLEAN", "false", MATCH),
    ("GREATER_THAN", "false", "BOOLEAN", "true", NO_MATCH),
    ("EQUALS", '"2031"', "LOCAL_DATE", '"2031-01-01"', MATCH),
    ("GREATER_OR_EQUAL", '"2031-05"', "LOCAL_DATE", '"2031-05-01"', MATCH),
    ("GREATER_THAN", '"2031-05"', "LOCAL_DATE", '"2031-05-01"', NO_MATCH),
    ("GREATER_OR_EQUAL", '"2031-05-06"', "YEAR", '"2031"', NO_MATCH),
    ("GREATER_OR_EQUAL", '"2031-05-06"', "YEAR", '"2032"', MATCH),
    ("LESS_THAN", '"2031-05-06"', "YEAR", '"2031"', MATCH),
    ("EQUALS", '"2031-05-06"', "YEAR", '"2031"', NO_MATCH),
    ("EQUALS", '"2031-01-01"', "YEAR", '"2031"', MATCH),
    ("NOT_EQUAL", '"2031-05-06"', "YEAR", '"2031"', NO_MATCH),
    ("NOT_EQUAL", '"2031-05-06"', "YEAR", '"2030"', MATCH),
    ("EQUALS", '"2031-05-06T08:00:00+02:00"', "ZONED_DATE_TIME", '"2031-05-06T06:00:00Z"', MATCH),
    ("EQUALS", '"2031-05-06T06:00:00.000499Z"', "ZONED_DATE_TIME", '"2031-05-06T06:00:00Z"', MATCH),
    ("EQUALS", '"2031-05-06T23:30:00-05:00"', "LOCAL_DATE_TIME", '"2031-05-06T23:30:00"', MATCH),
    ("EQUALS", '"2031-05-06"', "LOCAL_DATE", '"2031-05-06T00:00:00Z"', NO_MATCH),
    ("GREATER_THAN", '"2031-05-06"', "LOCAL_TIME", '"10:30"', NO_MATCH),
    ("BETWEEN", '["2031-05","2031-06"]', "LOCAL_DATE", '"2031-05-01"', NO_MATCH),
    ("BETWEEN_INCLUSIVE", '["2031-05","2031-06"]', "LOCAL_DATE", '"2031-05-01"', MATCH),
    ("BETWEEN", "[1,9]", "INTEGER", "9", NO_MATCH),
    ("BETWEEN_INCLUSIVE", "[1,9]", "INTEGER", "9", MATCH),
    ("BETWEEN_INCLUSIVE", "[1,9]", "STRING", '"10"', MATCH),
    ("LIKE", '"ab%"', "STRING", '"abacus"', MATCH),
    ("LIKE", '"ab%"', "STRING", '"cab"', NO_MATCH),
    ("LIKE", r'"5\\%"', "STRING", '"5%"', MATCH),
    ("LIKE", r'"5\\%"', "STRING", '"50"', NO_MATCH),
    ("LIKE", '"a.c"', "STRING", '"abc"', NO_MATCH),
    ("MATCHES_PATTERN", '"b+"', "STRING", '"abb"', NO_MATCH),
)
"""Operator, operand, declared types, stored value, whether they match. Operand and stored value are JSON texts."""
