"""Runs ``cloister`` or ``pytest`` with some modules of the package read from another folder.

So a page can be tried that adds to the package, without a second package whose kernels would have
to be compiled anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType


class Edited(MetaPathFinder):
    """Finds modules in a folder that is laid out as the repository is."""

    def __init__(self, folder: Path) -> None:
        self._sources = folder / "src"

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self._sources.joinpath(*name.split("."))
        if place.with_suffix(".py").is_file():
            return spec_from_file_location(name, place.with_suffix(".py"))
        if (place / "__init__.py").is_file():
            others = [str(Path(parent) / place.name) for parent in path or ()]
            return spec_from_file_location(
                name, place / "__init__.py", submodule_search_locations=others
            )
        return None


if __name__ == "__main__":
    _, edited, program, *arguments = sys.argv
    sys.meta_path.insert(0, Edited(Path(edited)))
    sys.argv = [program, *arguments]
    if program == "pytest":
        import pytest

        sys.exit(pytest.main(arguments))
    from cloister.app.command_line import main

    main()
