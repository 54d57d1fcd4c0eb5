"""CPU time to import each function from the layer as it is built: ``python -m tests.benchmarks.cold_import [ROUNDS]``.

The layer's own Makefile builds it, for the functions' Python (3.13) and with the wheels of this machine: those of AWS
are for another processor. boto3 comes with the runtime there, and lies beside the layer here. Each import runs in a
process of its own, once with the bytecode that the layer ships and once without, as cold starts were before.
"""

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.ratios import report

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "layers" / "tag_matching" / "python"
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))
ROUNDS = 7
RUNTIMES = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
"""What Lambda's runtime brings, by the versions of requirements.lock."""
GOALS_MS = {"publish": 170, "manage": 210, "fan_out": 110, "retry": 110}
PROGRAM = """
import time
started = time.process_time()
import {module}
print((time.process_time() - started) * 1000)
"""


def functions_python() -> str:
    """Return the Python 3.13 of this machine, as the layer's Makefile finds it."""
    asked = ["make", "--silent", "--no-print-directory", "-f", "-", "show"]
    rule = f"include {LAYER / 'Makefile'}\nshow:\n\t@echo $(FUNCTIONS_PYTHON)\n"
    return subprocess.run(asked, input=rule, cwd=LAYER, capture_output=True, text=True, check=True).stdout.strip()


def build(target: Path, python: str) -> Path:
    """Build the layer for this machine; return the folder that AWS lays into the path."""
    machine = platform.machine()
    wheels = f"--platform manylinux_2_28_{machine} --platform manylinux2014_{machine}"
    command = ["make", "--silent", "build-TagMatchingLayer", f"ARTIFACTS_DIR={target}", f"WHEELS={wheels}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "FUNCTIONS_PYTHON": python}
    subprocess.run(command, cwd=LAYER, env=environment, check=True, stderr=subprocess.DEVNULL)
    return target / "python"


def install_runtime(target: Path, python: str) -> Path:
    """Install what Lambda's runtime brings, compiled."""
    locked = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    wanted = [f"{name}=={locked[name]}" for name in RUNTIMES]
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), *wanted]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return target


def without_bytecode(layer: Path, target: Path) -> Path:
    """Return a copy of *layer* that every process has to compile."""
    shutil.copytree(layer, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def cold(module: str, python: str, *path: Path) -> float:
    """Return the CPU milliseconds of importing *module* in a process of its own, which keeps nothing."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "POWERTOOLS_TRACE_DISABLED": "true",
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
        "POWERTOOLS_SERVICE_NAME": "tagcast",
        "POWERTOOLS_METRICS_NAMESPACE": "tagcast",
    }
    ran = subprocess.run(
        [python, "-c", PROGRAM.format(module=module)], env=environment, capture_output=True, text=True, check=True
    )
    return float(ran.stdout)


def measure(rounds: int) -> Mapping[str, tuple[float, float]]:
    """Return for boto3 and each function the medians with and without bytecode, taken in turns."""
    python = functions_python()
    with tempfile.TemporaryDirectory() as folder:
        layer, runtime = build(Path(folder) / "layer", python), install_runtime(Path(folder) / "runtime", python)
        layers = (layer, without_bytecode(layer, Path(folder) / "source"))
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ("boto3", *FUNCTIONS)}
        for _ in range(rounds):
            for name, taken in times.items():
                module, own = ("boto3", ROOT) if name == "boto3" else ("app", ROOT / "functions" / name)
                for which, each in enumerate(layers):
                    taken[which].append(cold(module, python, own, each, runtime))
    return {name: (statistics.median(first), statistics.median(second)) for name, (first, second) in times.items()}


def main() -> None:
    """Print the table; exit with a fault when bytecode does not halve what a function of the goals takes."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    measured = measure(rounds)
    print(f"median of {rounds} fresh processes of Python 3.13, CPU ms\n")
    print("| import | as it is built | without bytecode | goal |\n|---|---|---|---|")
    for name, (compiled, source) in measured.items():
        print(f"| {name} | {compiled:.0f} | {source:.0f} | {GOALS_MS.get(name, '')} |")
        if name in GOALS_MS:
            report(f"import of {name}", source / compiled, "without bytecode")
    slow = [name for name in GOALS_MS if measured[name][0] > 0.7 * measured[name][1]]
    raise SystemExit(f"bytecode does not help: {', '.join(slow)}" if slow else 0)


if __name__ == "__main__":
    main()
