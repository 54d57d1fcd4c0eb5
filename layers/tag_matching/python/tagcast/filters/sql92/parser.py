"""Parses tokens into a tree, with an operator stack instead of recursion.

Both dialects share the grammar. They differ in the precedence of ``NOT``, in ``LIKE``, and in text after a complete
expression. The strict dialect refuses this text. The rocketmq dialect ignores it, as RocketMQ does.
"""

from typing import NamedTuple

from tagcast.filters.sql92.dialect import DEPTH_MAX, ELEMENTS_MAX, Dialect
from tagcast.filters.sql92.java import LONG_MAX
from tagcast.filters.sql92.like import parse_like
from tagcast.filters.sql92.numbers import number_of
from tagcast.filters.sql92.tokens import END, FLOAT, INTEGER, NAME, TEXT, Lexer, Token
from tagcast.filters.sql92.tree import TOO_DEEP, Node, Operand, TreeBuilder

_LONG_DIGITS = 19


def unquote(token: Token) -> str:
    """Return the content of *token*, a text in quotes. A doubled quote is one quote; a backslash is a plain character.

    >>> unquote(Token("text", "'it''s'", 0, 7))
    "it's"
    """
    return token.text[1:-1].replace("''", "'")


def check_number(lexer: Lexer, token: Token) -> str:
    """Return the text of a number literal, without the suffix ``L``. Raises FilterSyntaxError for a refused number.

    The strict dialect refuses exponents above 308. The rocketmq dialect refuses whole numbers beyond a long. Like
    RocketMQ, it also refuses decimal numbers that are zero or exceed a double.
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


_OR, _AND, _NOT, _EQUALITY, _COMPARISON, _SIGN = range(1, 7)
_BINARY = {"OR": _OR, "AND": _AND, "=": _EQUALITY, "<>": _EQUALITY}
_BINARY |= dict.fromkeys(("<", "<=", ">", ">="), _COMPARISON)
_SEARCHES = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_TESTS = _SEARCHES | {"BETWEEN", "IN"}
_OPERAND = "a property or a value, e.g. price > 100"


class _Pending(NamedTuple):
    """An operator whose right operand is not read yet. *binding* is the operator's precedence."""

    kind: str
    binding: int
    token: Token
    negated: bool = False


class Parser:
    """Parses one expression. In the rocketmq dialect, *ignored* is the text after the complete expression."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.strict = dialect is Dialect.STRICT
        self.lexer = Lexer(text, dialect)
        self.ignored = ""
        self._tree = TreeBuilder(self.lexer)
        self._operands: list[Operand] = []
        self._pending: list[_Pending] = []
        self._open = 0
        self._compared = False

    def parse(self) -> tuple[Node, ...]:
        """Return the nodes of the expression, the root last. Raises FilterSyntaxError if the expression is invalid."""
        while True:  # It ends: each round reads a token more.
            self._read_operand()
            if not self._read_operators():
                break
        self._reduce(_OR)
        root = self._tree.condition(self._operands.pop())
        return self._tree.finish(root)

    def _read_operand(self) -> None:
        """Read prefix operators, opening parentheses, and one property or literal."""
        while True:  # It ends: each round reads a token more.
            token = self.lexer.token
            if token.kind == "(":
                self._open += 1
                if self._open > DEPTH_MAX:
                    raise self.lexer.error("Too many levels of nesting", token.start, hint=TOO_DEEP)
                self._pending.append(_Pending("(", 0, token))
            elif token.kind in ("+", "-"):
                self._pending.append(_Pending("sign", _SIGN, token, token.kind == "-"))
            elif token.kind == "NOT":
                if self.strict and self._pending and self._pending[-1].kind not in ("(", "AND", "OR", "NOT"):
                    raise self.lexer.error(
                        "NOT without parentheses", token.start, "NOT", "a value or (", "Write a = (NOT b)"
                    )
                self._pending.append(_Pending("NOT", _NOT if self.strict else _SIGN, token))
            else:
                break
            self.lexer.advance()
        self._operands.append(self._primary(token))
        self._compared = False
        self.lexer.advance()

    def _primary(self, token: Token) -> Operand:
        if token.kind == NAME:
            return self._tree.literal("property", token.text, token.start, token.end)
        if token.kind == TEXT:
            return self._tree.literal("text", unquote(token), token.start, token.end)
        if token.kind in ("TRUE", "FALSE", "NULL"):
            return self._tree.literal(token.kind.lower(), None, token.start, token.end)
        if token.kind in (INTEGER, FLOAT):
            return self._tree.literal(token.kind, check_number(self.lexer, token), token.start, token.end)
        is_doubled = token.kind == "=" and self._pending and self._pending[-1].kind == "="
        raise self.lexer.unexpected_token(_OPERAND, ". Write = for equal, not ==" if is_doubled else "")

    def _read_operators(self) -> bool:
        """Read the operators after an operand. Return whether another operand must follow: False at the end."""
        while True:  # It ends: each round reads a token more.
            token = self.lexer.token
            if self._pending and self._waits_for_low_bound():
                if token.kind != "AND":
                    raise self.lexer.unexpected_token("AND and the upper bound, e.g. a BETWEEN 1 AND 5")
                pending = self._pending.pop()
                self._pending.append(pending._replace(kind="BETWEEN"))
                self.lexer.advance()
                return True
            binding = _BINARY.get(token.kind)
            if binding is not None and not (binding == _COMPARISON and self._compared):
                self._reduce(binding)
                if token.kind in ("AND", "OR"):  # Nodes are evaluated in their order: the left one before the right.
                    self._operands.append(self._tree.condition(self._operands.pop()))
                self._pending.append(_Pending(token.kind, binding, token))
                self.lexer.advance()
                return True
            if token.kind == "IS":
                self._read_null_test()
            elif self._starts_test(token) and not self._compared:
                if self._read_test():
                    return True
            elif token.kind == ")" and self._open:
                self._close(token)
            else:
                self._end(token)
                return False

    def _waits_for_low_bound(self) -> bool:
        for pending in reversed(self._pending):
            if pending.binding < _SIGN:
                if pending.kind != "LOW":
                    return False
                self._reduce(_SIGN)
                return True
        return False

    def _starts_test(self, token: Token) -> bool:
        return token.kind in _TESTS or token.kind == "NOT" or self._is_word(token, "LIKE")

    def _is_word(self, token: Token, word: str) -> bool:
        """Return whether *token* is *word* (LIKE or ESCAPE). Only the strict dialect reads these names as operators."""
        return self.strict and token.kind == NAME and token.text.upper() == word

    def _read_null_test(self) -> None:
        self._reduce(_EQUALITY)
        token = self.lexer.advance()
        negated = token.kind == "NOT"
        if negated:
            token = self.lexer.advance()
        if token.kind != "NULL":
            raise self.lexer.unexpected_token("NULL" if negated else "NULL or NOT NULL")
        self._operands.append(self._tree.null_test(negated, self._operands.pop(), token.end))
        self._compared = True
        self.lexer.advance()

    def _read_test(self) -> bool:
        """Read ``IN (…)``, ``LIKE …`` or another test. Return True after ``BETWEEN``, whose bounds must follow."""
        token = self.lexer.token
        negated = token.kind == "NOT"
        if negated:
            token = self.lexer.advance()
        self._reduce(_COMPARISON)
        if token.kind == "BETWEEN":
            self._pending.append(_Pending("LOW", _COMPARISON, token, negated))
            self.lexer.advance()
            return True
        subject = self._operands.pop()
        prefix = "not_" if negated else ""
        if token.kind == "IN":
            texts, end = self._texts()
            self._operands.append(self._tree.membership(negated, subject, texts, end))
        elif token.kind in _SEARCHES:
            self.lexer.advance()
            text = self._text("a text in quotes, e.g. 'eu'")
            self._operands.append(self._tree.search(prefix + token.kind.lower(), unquote(text), subject, text.end))
        elif self._is_word(token, "LIKE"):
            self.lexer.advance()
            self._operands.append(self._like(prefix + "like", subject))
        else:
            raise self.lexer.unexpected_token("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        return False

    def _like(self, operator: str, subject: Operand) -> Operand:
        pattern = self._text("a pattern in quotes, e.g. 'eu%'")
        end, escape = pattern.end, ""
        if self._is_word(self.lexer.token, "ESCAPE"):
            self.lexer.advance()
            token = self._text("one character in quotes, e.g. '!'")
            end, escape = token.end, unquote(token)
            if len(escape) != 1:
                raise self.lexer.error("ESCAPE requires exactly one character", token.start, str(token))
        try:
            parse_like(unquote(pattern), escape)
        except ValueError as error:
            raise self.lexer.error(str(error), pattern.start, str(pattern)) from None
        return self._tree.search(operator, (unquote(pattern), escape), subject, end)

    def _texts(self) -> tuple[tuple[str, ...], int]:
        if self.lexer.advance().kind != "(":
            raise self.lexer.unexpected_token("(")
        texts: list[str] = []
        while True:  # It ends: each round reads an element more.
            self.lexer.advance()
            if len(texts) == ELEMENTS_MAX:
                hint = f"At most {ELEMENTS_MAX} are allowed"
                raise self.lexer.error("Too many elements", self.lexer.token.start, hint=hint)
            texts.append(unquote(self._text("a text in quotes, e.g. 'eu'")))
            token = self.lexer.token
            if token.kind == ")":
                self.lexer.advance()
                return tuple(texts), token.end
            if token.kind != ",":
                raise self.lexer.unexpected_token(", or )")

    def _text(self, expected: str) -> Token:
        token = self.lexer.token
        if token.kind != TEXT:
            raise self.lexer.unexpected_token(expected)
        self.lexer.advance()
        return token

    def _close(self, token: Token) -> None:
        self._reduce(_OR)
        opening = self._pending.pop()
        self._open -= 1
        inner = self._operands.pop()
        self._operands.append(Operand(inner.place, opening.token.start, token.end))
        self._compared = False
        self.lexer.advance()

    def _end(self, token: Token) -> None:
        if self._open:
            raise self.lexer.unexpected_token(")")
        if token.kind != END and self.strict:
            raise self.lexer.unexpected_token("an operator or the end of the expression")
        self.ignored = self.lexer.text[token.start :]

    def _reduce(self, binding: int) -> None:
        """Apply the last pending operators whose precedence is *binding* or higher."""
        while self._pending and self._pending[-1].binding >= binding:
            kind, _, token, negated = self._pending.pop()
            right = self._operands.pop()
            if kind == "sign":
                result = self._tree.add_sign(negated, right, token.start)
            elif kind == "NOT":
                result = self._tree.negation(right, token.start)
            elif kind == "BETWEEN":
                low = self._operands.pop()
                result = self._tree.between(negated, self._operands.pop(), low, right)
            elif kind in ("AND", "OR"):
                result = self._tree.junction(kind.lower(), self._operands.pop(), right)
            else:
                result = self._tree.comparison(kind, self._operands.pop(), right)
            self._operands.append(result)
