"""The words of public names and of docstrings: the field's own, and plain sentences.

Each word of a public name is in the glossary, or in a list of plain words that only shrinks.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "layers/tag_matching/python/tagcast"
ROOMS = ("delivery", "pushing", "rows", "repairing", "operating", "pulling")
PLAIN_WORDS = Path(__file__).with_name("plain_words.txt")
FIELD_WORDS = Path(__file__).with_name("field_words.txt")
"""Terms of SQS, Kafka, RocketMQ, CMQ, AWS or a textbook, with their meaning there."""
PLAIN_WORDS_MAX, OWN_NOUNS_MAX = 400, 35
ONE_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

PRODUCT = [
    module
    for folder in ("layers", "functions", "local", "glue_jobs", "clients")
    for module in sorted((ROOT / folder).rglob("*.py"))
    if "_sync/" not in module.as_posix()
]
IRREGULAR_PARTICIPLES = (
    "begun|built|done|drawn|found|given|gone|heard|held|kept|known|left|lost|made|met|owed|said|seen|sent|shown|taken|"
    "thought|told|understood|written"
)
OTHER_WORDS = frozenset({"embed", "exceed", "feed", "need", "seed", "shed", "speed"})
REFUSED = ("owed", "owes", "somebody", "nobody", "whoever", "is told", "are told", "those of which", "so many")
REFUSED_IN_NAMES = (
    "anew|anybody|anyone|came|doomed|everybody|fates?|nobody|owed|raced|said|saw|somebody|strangers|this|told|vain"
)
RIDDLE = re.compile(r"(What|Who|Whoever|So (many|much|long|often|far|late))\b")
SENTENCE_WORDS_MAX = 30


def words_in(name: str) -> set[str]:
    """Return the words of an identifier.

    >>> sorted(words_in("RECEIPT_BYTES_MAX") | words_in("LaneLease"))
    ['bytes', 'lane', 'lease', 'max', 'receipt']
    """
    return {word.lower() for part in name.split("_") for word in ONE_WORD.findall(part)}


def public_names(module: Path) -> Iterator[str]:
    if module.stem != "__init__":
        yield module.stem
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.Assign):
            yield from (each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (each.name for each in node.body if isinstance(each, FUNCTIONS))
            yield from (
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            )


def glossary() -> list[str]:
    """Return our own words."""
    return re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)


@cache
def used() -> set[str]:
    modules = [module for room in ROOMS for module in sorted((CORE / room).glob("*.py"))]
    names = (name for module in modules for name in public_names(module) if not name.startswith("_"))
    return set[str]().union(*map(words_in, names))


def test_every_word_of_a_public_name_is_in_the_glossary_or_of_the_field_or_a_plain_word() -> None:
    ours = {word for noun in glossary() for word in re.findall(r"[a-z]+", noun.lower())}
    field, plain = FIELD_WORDS.read_text().split(), PLAIN_WORDS.read_text().split()

    assert sorted(used() - ours - {*field, *plain}) == [], "look for the field's word, or put it into the glossary"
    assert sorted({*field, *plain} - used()) == [], "these words are not used any more: take them off the list"
    assert sorted({*field, *plain} & ours) == [], "these words are in the glossary"
    assert field + plain == sorted(set(field)) + sorted(set(plain))
    assert sorted(set(field) & set(plain)) == []
    assert len(plain) <= PLAIN_WORDS_MAX


def test_our_own_words_are_few() -> None:
    assert len(glossary()) <= OWN_NOUNS_MAX


def test_no_public_name_has_a_word_that_says_nothing() -> None:
    found = [
        (module.relative_to(ROOT).as_posix(), name)
        for module in PRODUCT
        for name in public_names(module)
        if not name.startswith("_") and any(re.fullmatch(REFUSED_IN_NAMES, word) for word in words_in(name))
    ]

    assert found == [], "name the thing: listed, not told"


def is_bare_participle(name: str) -> bool:
    """Return whether a name is one participle, and therefore no verb with an object.

    >>> [name for name in ("kept", "changed", "feed", "keep_changes", "changed_rows") if is_bare_participle(name)]
    ['kept', 'changed']
    """
    return bool(re.fullmatch(f"{IRREGULAR_PARTICIPLES}|[a-z]+ed", name)) and name not in OTHER_WORDS


@cache
def parsed_product() -> dict[str, ast.Module]:
    """Return the parsed modules of the product, by path."""
    return {module.relative_to(ROOT).as_posix(): ast.parse(module.read_text()) for module in PRODUCT}


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def test_no_public_function_is_a_bare_participle() -> None:
    found = [
        (name, node.name)
        for name, tree in parsed_product().items()
        for node in tree.body
        if isinstance(node, FUNCTIONS) and is_bare_participle(node.name)
    ]

    assert found == [], "a function is a verb with an object: read_lane, not told"


def test_no_public_method_is_a_bare_participle() -> None:
    found = [
        (name, node.name)
        for name, tree in parsed_product().items()
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, FUNCTIONS) and is_bare_participle(node.name) and not is_property(node)
    ]

    assert found == [], "a method is a verb, or the noun that it returns: record_end, not ended"


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and prose of each docstring, also of those below constants, without doctests and code."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                prose = re.split(r"(?m)^\s*>>>", each.value.value)[0]
                yield each.lineno, re.sub(r"``[^`]*``|`[^`]*`|\*\w+\*|\([^()]*\)", "x", prose)


def sentences(prose: str) -> Iterator[str]:
    """Yield the sentences of a docstring; an item of a list and a part before a colon or semicolon count as one.

    >>> list(sentences("Return a lane. It sleeps; it wakes\\nwhen: \\n\\n- a\\n- b"))
    ['Return a lane.', 'It sleeps;', 'it wakes when:', '- a', 'b']
    """
    for paragraph in re.split(r"\n\s*\n|\n\s*- |\n\d\. ", prose):
        yield from filter(None, re.split(r"(?<=[.:;?!])\s+", " ".join(paragraph.split())))


def faults_of(prose: str) -> list[str]:
    """Return the parts of a docstring that need a second reading.

    >>> faults_of("Return the backlog. What a lane is owed waits."), faults_of("Return the backlog of a lane.")
    (['owed', 'What a lane is owed waits.'], [])
    """
    words = [word for word in REFUSED if re.search(rf"\b{word}\b", prose, re.IGNORECASE)]
    riddles = [each for each in sentences(prose) if re.match(RIDDLE, each)]
    return words + riddles + [each for each in sentences(prose) if len(each.split()) > SENTENCE_WORDS_MAX]


def test_docstrings_are_plain_sentences() -> None:
    found = [
        (f"{name}:{line}", fault)
        for name, tree in parsed_product().items()
        for line, prose in docstrings(tree)
        for fault in faults_of(prose)
    ]

    assert found == [], "the subject is a named part, the verb the industry's, at most 30 words"
