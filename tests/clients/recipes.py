"""The recipes of the client's documents, as modules."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "clients/python/recipes"


def load_recipe(name: str) -> ModuleType:
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
