"""Runs the simulator with one bug planted: the source of a module is changed as it is imported.

python -m tests.sim.mutated NAME simulate --seed 7
python -m tests.sim.mutated NAME search 300     # prints the first seed that finds it
python -m tests.sim.mutated NAME scenario FILE
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.sim.mutant import Mutant
from tests.sim.mutants import MUTANTS

SECONDS = 30


class Planting(SourceFileLoader):
    """Loads a module's source with the bug in it; never from a cache, nor into one."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = planted(self._mutant, fullname, Path(self.path).read_text(encoding="utf-8"))
        return compile(source, self.path, "exec")


class Finder(MetaPathFinder):
    """Finds the modules that are to be changed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._mutant.modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = Planting(fullname, spec.origin, self._mutant)
        return spec


def planted(mutant: Mutant, module: str, source: str) -> str:
    """The source with the bug: what it replaces must be there, once."""
    for change in mutant.changes:
        if change.module == module:
            count = source.count(change.old)
            assert count == 1, f"{mutant.name}: {count} places in {module} read {change.old!r}"
            source = source.replace(change.old, change.new)
    return source


def main(name: str, what: str, *arguments: str) -> None:
    sys.meta_path.insert(0, Finder(MUTANTS[name]))
    if what == "scenario":
        from tests.scenarios.director import perform

        print(perform(Path(arguments[0])), end="")
    elif what == "search":
        from tidelog.cli.simulating import simulate

        for seed in range(1, int(arguments[0]) + 1):
            violation = simulate((seed, None, SECONDS)).violation
            if violation is not None:
                print(f"seed {seed}: {violation.invariant}")
                break
    else:
        from tidelog.cli.main import tidelog

        tidelog([what, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
