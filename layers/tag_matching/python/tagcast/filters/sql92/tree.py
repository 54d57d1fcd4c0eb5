"""The expression as a flat list of nodes, children before parents, checked while it is built."""

from typing import NamedTuple

from tagcast.errors import FilterSyntaxError
from tagcast.filters.sql92.dialect import DEPTH_MAX, TERMS_MAX, Dialect
from tagcast.filters.sql92.numbers import number_of
from tagcast.filters.sql92.tokens import Lexer

NUMBER_LITERALS = frozenset({"integer", "float"})
LITERALS = NUMBER_LITERALS | {"text", "true", "false", "null"}
BOOLEAN_LITERALS = frozenset({"true", "false", "null"})
OPERANDS = frozenset({"property", "text", "integer", "float", "signed"})
ORDERINGS = {"<": "less", "<=": "at_most", ">": "greater", ">=": "at_least"}
EQUALITIES = {"=": "equal", "<>": "unequal"}
COMPARISONS = frozenset({*EQUALITIES.values(), *ORDERINGS.values(), "between", "not_between"})
TOO_DEEP = f"At most {DEPTH_MAX} are allowed"


class Node(NamedTuple):
    """A node of an expression. *value* is e.g. a property's name, a literal, or the texts of IN. It may be None.

    *children* are the indices of the operands in the list of nodes. *start* and *end* are offsets in the expression.
    """

    operator: str
    value: object
    children: tuple[int, ...]
    start: int
    end: int


class Operand(NamedTuple):
    """A node that was added, by its index *place*.

    *start* and *end* are the offsets of its text in the expression, including the parentheses around it.
    """

    place: int
    start: int
    end: int


class TreeBuilder:
    """Collects the nodes of an expression. Each method that adds a node returns the node as an Operand.

    A method raises FilterSyntaxError if the language does not allow the operands, or if a limit is exceeded.
    """

    def __init__(self, lexer: Lexer) -> None:
        self.nodes: list[Node] = []
        self._depths: list[int] = []
        self._lexer = lexer
        self._strict = lexer.dialect is Dialect.STRICT
        self._terms = 0

    def literal(self, operator: str, value: object, start: int, end: int) -> Operand:
        """Add a property or a literal. *operator* is its type, and *value* the property's name or the literal."""
        return self._add(operator, value, (), start, end)

    def add_sign(self, negative: bool, operand: Operand, start: int) -> Operand:
        """Add a sign before an operand, a minus if *negative*. A plus adds no node."""
        node = self.nodes[operand.place]
        base = node.children[0] if node.operator == "signed" else operand.place
        if self._strict and self.nodes[base].operator not in (NUMBER_LITERALS | {"property"}):
            raise self._operand_error(
                "Sign before a value that is not a number", operand, "Write a sign before a number or a property"
            )
        if not negative:
            return Operand(operand.place, start, operand.end)
        sign = -1 if node.operator != "signed" else -int(str(node.value))
        return self._add("signed", sign, (base,), start, operand.end)

    def negation(self, operand: Operand, start: int) -> Operand:
        """Add ``NOT`` of a condition."""
        return self._add("not", None, (self.condition(operand).place,), start, operand.end)

    def junction(self, operator: str, left: Operand, right: Operand) -> Operand:
        """Add ``AND`` or ``OR``. A chain of one operator is one node with many children.

        *left* must be a result of :meth:`condition`. *right* may be any operand that :meth:`condition` accepts.
        """
        right = self.condition(right)
        node, depth = self.nodes[left.place], 1 + self._depths[right.place]
        if node.operator == operator:
            # The chain knows the depth of its children. Asking each of them again would take quadratic time.
            children, depth = (*node.children, right.place), max(depth, self._depths[left.place])
        else:
            children, depth = (left.place, right.place), max(depth, 1 + self._depths[left.place])
        return self._put(Node(operator, None, children, left.start, right.end), depth)

    def comparison(self, symbol: str, left: Operand, right: Operand) -> Operand:
        """Add one of ``= <> < <= > >=`` between two operands."""
        if symbol in ORDERINGS:
            self._check_ordering(left)
            self._check_ordering(right)
            return self._term(ORDERINGS[symbol], None, (left, right), right.end)
        for side in (left, right):
            if self.nodes[side.place].operator == "null":
                raise self._operand_error("Comparison with NULL", side, "Write IS NULL or IS NOT NULL")
        left_is, right_is = self.nodes[left.place].operator, self.nodes[right.place].operator
        if left_is in BOOLEAN_LITERALS and right_is in LITERALS - BOOLEAN_LITERALS:
            raise self._operand_error("Comparison of TRUE or FALSE with a literal", right, "Write e.g. paid = TRUE")
        return self._term(EQUALITIES[symbol], None, (left, right), right.end)

    def between(self, negated: bool, subject: Operand, low: Operand, high: Operand) -> Operand:
        """Add ``[NOT] BETWEEN low AND high``."""
        for operand in (subject, low, high):
            self._check_ordering(operand)
        bounds = [self.nodes[bound.place] for bound in (low, high)]
        if not negated and all(bound.operator in NUMBER_LITERALS for bound in bounds):
            lower, upper = (number_of(str(bound.value)) for bound in bounds)
            if lower is not None and upper is not None and upper < lower:
                raise self._operand_error("Upper bound below the lower bound", high, "Write e.g. BETWEEN 1 AND 5")
        operator = "not_between" if negated else "between"
        return self._term(operator, None, (subject, low, high), high.end)

    def membership(self, negated: bool, subject: Operand, texts: tuple[str, ...], end: int) -> Operand:
        """Add ``[NOT] IN ('a', …)``."""
        if self.nodes[subject.place].operator != "property":
            raise self._operand_error("IN without a property on its left", subject, "Write e.g. region IN ('eu', 'us')")
        return self._term("not_in" if negated else "in", texts, (subject,), end)

    def null_test(self, negated: bool, subject: Operand, end: int) -> Operand:
        """Add ``IS [NOT] NULL``."""
        return self._term("is_not_null" if negated else "is_null", None, (subject,), end)

    def search(self, operator: str, value: object, subject: Operand, end: int) -> Operand:
        """Add ``[NOT] CONTAINS | STARTSWITH | ENDSWITH | LIKE``. For LIKE, *value* has the pattern and the escape.

        For other operators, *value* is the searched text. If this text is empty, the rocketmq dialect does not evaluate
        a subject that is a condition or a boolean. As in RocketMQ, the result is then FALSE.
        """
        if value == "" and not self._strict and self.nodes[subject.place].operator not in OPERANDS:
            return self.literal("false", None, subject.start, end)
        return self._term(operator, value, (subject,), end)

    def condition(self, operand: Operand) -> Operand:
        """Return *operand* if it is a condition. A property alone becomes a test of whether the property is true.

        Raises FilterSyntaxError for any other value.
        """
        operator = self.nodes[operand.place].operator
        if operator == "property":
            return self._term("is_true", None, (operand,), operand.end)
        if operator in OPERANDS:
            raise self._operand_error("Value instead of a condition", operand, "Write e.g. price > 100")
        if operator in BOOLEAN_LITERALS:
            self._count_term(operand.start)
        return operand

    def finish(self, root: Operand) -> tuple[Node, ...]:
        """Return *root* and all nodes below it, in the order in which they were added. The root is the last."""
        needed = {root.place}
        for place in range(root.place, -1, -1):
            if place in needed:
                needed.update(self.nodes[place].children)
        places = {place: new for new, place in enumerate(sorted(needed))}
        kept = (self.nodes[place] for place in places)
        return tuple(node._replace(children=tuple(places[child] for child in node.children)) for node in kept)

    def _check_ordering(self, operand: Operand) -> None:
        operator = self.nodes[operand.place].operator
        if operator not in NUMBER_LITERALS | {"property", "signed"}:
            raise self._operand_error(
                "Order comparison with a value that is not a number",
                operand,
                "Compare numbers and properties, e.g. price > 100",
            )

    def _term(self, operator: str, value: object, operands: tuple[Operand, ...], end: int) -> Operand:
        self._count_term(operands[0].start)
        children = tuple(operand.place for operand in operands)
        return self._add(operator, value, children, operands[0].start, end)

    def _count_term(self, at: int) -> None:
        self._terms += 1
        if self._terms > TERMS_MAX:
            raise self._lexer.error("Too many terms", at, hint=f"At most {TERMS_MAX} are allowed")

    def _add(self, operator: str, value: object, children: tuple[int, ...], start: int, end: int) -> Operand:
        depth = 1 + max((self._depths[child] for child in children), default=-1)
        return self._put(Node(operator, value, children, start, end), depth)

    def _put(self, node: Node, depth: int) -> Operand:
        if depth > DEPTH_MAX:
            raise self._lexer.error("Too many levels of nesting", node.start, hint=TOO_DEEP)
        self._depths.append(depth)
        self.nodes.append(node)
        return Operand(len(self.nodes) - 1, node.start, node.end)

    def _operand_error(self, message: str, operand: Operand, hint: str) -> FilterSyntaxError:
        found = self._lexer.text[operand.start : operand.end]
        return self._lexer.error(message, operand.start, found[:40], hint=hint)
