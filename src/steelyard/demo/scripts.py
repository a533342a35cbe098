"""Where the example scripts are: in the clone's `examples/`, or beside this file in an installed package."""

from __future__ import annotations

from pathlib import Path

from steelyard.model.errors import UnavailableError

SCRIPTS = ("train_numpy.py", "serve_model.py")


def find_examples() -> Path:
    """The folder that holds the scripts. Raises UnavailableError `demo-examples-missing`."""
    here = Path(__file__).resolve().parent
    for folder in (here / "examples", here.parents[2] / "examples"):
        if all((folder / script).is_file() for script in SCRIPTS):
            return folder
    raise UnavailableError("demo-examples-missing", path=str(here / "examples"))
