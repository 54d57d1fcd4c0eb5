"""Splits an expression into tokens. A token is read when it is needed, because rocketmq ignores text after the end."""

import re
from dataclasses import dataclass

from tagcast.errors import FilterSyntaxError
from tagcast.filters.sql92.dialect import Dialect

KEYWORDS = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"]
)
END = "end"
NAME = "name"
TEXT = "text"
INTEGER = "integer"
FLOAT = "float"

_EXPONENT = r"[eE][+-]?[0-9]++"
_TOKEN = re.compile(
    rf"(?P<float>[0-9]++\.[0-9]*+(?:{_EXPONENT})?|\.[0-9]++(?:{_EXPONENT})?|[0-9]++{_EXPONENT})"
    r"|(?P<integer>[1-9][0-9]*+[lL]?|0)"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*+)"
    r"|(?P<text>'[^']*+(?:''[^']*+)*')"
    r"|(?P<symbol><>|<=|>=|[=<>(),+-])"
)
_HINTS = {
    "!": "Write <> for unequal, or NOT before a condition",
    '"': "Write texts in single quotes, e.g. 'eu'",
    "&": "Write AND",
    "|": "Write OR",
}
"""Characters of other languages, each with a hint about the equivalent in these dialects."""
_BLANKS = re.compile(r"[ \t\n\r\f]*+")
_LINE_END = re.compile(r"[\n\r]")


@dataclass(frozen=True, slots=True)
class Token:
    """A token. *kind* is a keyword in capitals, a symbol, or a constant of this module such as :data:`NAME`.

    *start* and *end* are the offsets of the token in the expression.
    """

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        if self.kind == END:
            return "the end of the expression"
        return self.text if len(self.text) <= 40 else self.text[:40] + "…"


class Lexer:
    """Reads the tokens of one expression; *token* is the current one.

    >>> lexer = Lexer("a >= 1", Dialect.STRICT)
    >>> [lexer.token.kind, lexer.advance().kind, lexer.advance().text, lexer.advance().kind]
    ['name', '>=', '1', 'end']
    """

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self._last_line_end = max(text.rfind("\n"), text.rfind("\r"))
        self.token = self._read(0)

    def advance(self) -> Token:
        """Read the next token, which becomes *token*, and return it. Raises FilterSyntaxError for an invalid token."""
        self.token = self._read(self.token.end)
        return self.token

    def error(self, message: str, at: int, found: str = "", expected: str = "", hint: str = "") -> FilterSyntaxError:
        """Return the error *message* at the offset *at*, with line and column.

        *found* and *expected* are the wrong text and what should be there. *hint* says what is allowed.
        """
        before = self.text[:at]
        line, column = before.count("\n") + 1, at - before.rfind("\n")
        return FilterSyntaxError(message, line, column, found=found, expected=expected, hint=hint)

    def unexpected_token(self, expected: str, hint: str = "") -> FilterSyntaxError:
        """Return the error that the current token is unexpected. *expected* says what should be there.

        *hint* is added after *expected* in the error's hint.
        """
        found = str(self.token)
        what = "end of the expression" if self.token.kind == END else repr(found)
        return self.error(f"Unexpected {what}", self.token.start, found, expected, f"Expected {expected}{hint}")

    def _read(self, at: int) -> Token:
        at = self._skip(at)
        if at == len(self.text):
            return Token(END, "", at, at)
        match = _TOKEN.match(self.text, at)
        if match is None:
            found = self.text[at]
            message = "Text without a closing quote" if found == "'" else f"Unexpected {found!r}"
            raise self.error(message, at, found, "an expression", _HINTS.get(found, ""))
        text, kind = match.group(), str(match.lastgroup)
        if kind == "symbol":
            kind = text
        elif kind == NAME and text.upper() in KEYWORDS:
            kind = text.upper()
        elif text == "0" and self.dialect is Dialect.STRICT and self.text[match.end() : match.end() + 1] in ("l", "L"):
            return Token(INTEGER, self.text[at : match.end() + 1], at, match.end() + 1)
        return Token(kind, text, at, match.end())

    def _skip(self, at: int) -> int:
        """Return the offset after blanks and comments. In rocketmq ``--`` is two signs, unless a line end follows."""
        while True:  # It ends: each comment comes after the one before.
            blanks = _BLANKS.match(self.text, at)
            assert blanks is not None
            at = blanks.end()
            if self.text.startswith("/*", at):
                close = self.text.find("*/", at + 2)
                if close < 0:
                    raise self.error("Comment without */", at, "/*", "*/")
                at = close + 2
            elif self.text.startswith("--", at) and at < self._last_line_end:
                line_end = _LINE_END.search(self.text, at)
                assert line_end is not None
                at = line_end.end()
            elif self.text.startswith("--", at) and self.dialect is Dialect.STRICT:
                at = len(self.text)
            else:
                return at
