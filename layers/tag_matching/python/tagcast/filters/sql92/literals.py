"""The values of literals, and the numbers that each dialect refuses."""

from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.java import LONG_MAX
from tagcast.filters.sql92.numbers import number_of
from tagcast.filters.sql92.tokens import INTEGER, Lexer, Token

_LONG_DIGITS = 19


def unquote(token: Token) -> str:
    """Return the text of a literal in quotes. A doubled quote is one quote; a backslash has no special meaning.

    >>> unquote(Token("text", "'it''s'", 0, 7))
    "it's"
    """
    return token.text[1:-1].replace("''", "'")


def check_number(lexer: Lexer, token: Token) -> str:
    """Return the digits of a number literal, without the suffix ``L``.

    strict refuses exponents above 308. rocketmq refuses whole numbers beyond a long and, like RocketMQ, decimal numbers
    that are zero or exceed a double.
    """
    digits = token.text.rstrip("lL")
    if lexer.dialect is Dialect.STRICT:
        if number_of(digits) is None:
            raise lexer.error(
                "Number too large", token.start, str(token), "a number", "Exponents up to 308 are allowed"
            )
    elif token.kind == INTEGER:
        if len(digits) > _LONG_DIGITS or int(digits) > LONG_MAX:
            raise lexer.error("Number too large", token.start, str(token), "a long", f"At most {LONG_MAX} is allowed")
    elif not 0.0 < float(digits) < float("inf"):
        hint = "The rocketmq dialect refuses decimal numbers that are zero or exceed a double. Write 0 for zero"
        raise lexer.error("Decimal number out of range", token.start, str(token), "a number; for zero, 0", hint)
    return digits
