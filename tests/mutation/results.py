"""What came of each mutant, kept between runs, and the table of it."""

import ast
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from tests.mutation.mutants import Mutant, functions_of

JUDGED = Path(__file__).with_name("judged.txt")
SURVIVED = "survived"


@dataclass(frozen=True)
class Result:
    """*by* is the test that turned red, the broken promise of a history, or SURVIVED; *how* is one of WAYS."""

    key: str
    function: str
    tree: str
    how: str
    by: str
    seconds: float


TESTS, SIMULATION, HUNG = "tests", "simulation", "hung"
WAYS = (TESTS, SIMULATION, HUNG, SURVIVED)


def function_digest(mutant: Mutant) -> str:
    return sha256(ast.dump(functions_of(mutant.module)[mutant.function]).encode()).hexdigest()[:12]


class Results:
    """The file of results: a kill counts while its function is the same, a survivor while the whole tree is."""

    def __init__(self, path: Path, tree: str) -> None:
        self._path = path
        self._tree = tree
        self._known: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                result = Result(**json.loads(line))
                self._known[result.key] = result

    def of(self, mutant: Mutant) -> Result | None:
        known = self._known.get(mutant.key)
        if known is None or known.function != function_digest(mutant):
            return None
        return None if known.how == SURVIVED and known.tree != self._tree else known

    def add(self, mutant: Mutant, how: str, by: str, seconds: float) -> Result:
        result = Result(mutant.key, function_digest(mutant), self._tree, how, by, round(seconds, 2))
        self._known[mutant.key] = result
        self._path.parent.mkdir(exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        return result


@dataclass(frozen=True)
class Judgement:
    """Why a mutant is as good as the shipped code; *where* is ``module:function``."""

    where: str
    old: str
    new: str
    reason: str

    @property
    def key(self) -> str:
        return f"{self.where} | {self.old} -> {self.new}"


def judgements() -> dict[str, Judgement]:
    """Return the judgements of the repository, by the mutant's key."""
    lines = [line for line in JUDGED.read_text().splitlines() if not line.startswith("#")]
    judged = []
    for heading, old, new in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        where, _, reason = heading.partition(" | ")
        judged.append(Judgement(where, old.strip(), new.strip(), reason))
    return {judgement.key: judgement for judgement in judged}


def table(outcomes: Sequence[tuple[Mutant, Result]], modules: Iterable[str]) -> Iterator[str]:
    """Yield the table for people, in Markdown: mutants by module and by what became of them."""
    judged = judgements()
    yield "| module | mutants | killed by tests | by histories | by hanging | equivalent | survived | killed |"
    yield "|---|---|---|---|---|---|---|---|"
    total: Counter[str] = Counter()
    for module in modules:
        counted: Counter[str] = Counter()
        for mutant, result in outcomes:
            if mutant.module == module:
                equivalent = result.how == SURVIVED and mutant.key in judged
                counted["equivalent" if equivalent else result.how] += 1
        if counted:
            total += counted
            yield _line(f"`{module}`", counted)
    yield _line("all", total)


def _line(name: str, counted: Counter[str]) -> str:
    killed = counted[TESTS] + counted[SIMULATION] + counted[HUNG]
    share = 100 * killed / max(1, killed + counted[SURVIVED])
    columns = [sum(counted.values()), *(counted[how] for how in (TESTS, SIMULATION, HUNG, "equivalent", SURVIVED))]
    return f"| {name} | {' | '.join(f'{number:,}' for number in columns)} | {share:.1f} % |"
