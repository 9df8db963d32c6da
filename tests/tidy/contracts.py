"""Import contracts of our own, for import-linter."""

from __future__ import annotations

from grimp import ImportGraph, build_graph
from importlinter import ContractCheck
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract


class AcyclicWhenRun(AcyclicSiblingsContract):
    """No cycles of imports that are run; modules may name each other's types."""

    type_name = "acyclic_when_run"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check the imports that are run, of the packages that the whole graph has."""
        run = build_graph("mustela", exclude_type_checking_imports=True)
        return super().check(run, verbose)
