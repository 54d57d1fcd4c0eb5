"""The parts of ``python -m tests.benchmarks.filters``."""
