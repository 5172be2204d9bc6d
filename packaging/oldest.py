"""Print the dependencies of the package at their lower bounds, for an environment of the oldest versions.

python packaging/oldest.py > oldest.txt         # make test-oldest does this
"""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def lower_bounds(dependencies: list[str]) -> list[str]:
    """Return ``name==version`` for each ``name>=version``."""
    return [dependency.replace(">=", "==") for dependency in dependencies]


if __name__ == "__main__":
    print("\n".join(lower_bounds(tomllib.loads(PROJECT.read_text())["project"]["dependencies"])))
