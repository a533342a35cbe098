"""An import-linter contract that says what a room may import, instead of listing what it may not.

A forbidden list falls behind when a room is added; this one does not. Names that do not exist (yet)
are allowed in both lists, so that the rules can be written before the rooms are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def is_within(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of the packages or lies below one of them."""
    return any(module == package or module.startswith(package + ".") for package in packages)


class MayImportOnly(Contract):
    """Direct imports from `source_modules` within the root package go to themselves or to `allowed_modules`.

    The root package itself (its version) is always allowed. `except_modules` names single modules of
    the sources that are not looked at.
    """

    type_name = "may_import_only"

    source_modules: Any = fields.SetField(subfield=fields.StringField())
    allowed_modules: Any = fields.SetField(subfield=fields.StringField())
    except_modules: Any = fields.SetField(subfield=fields.StringField(), required=False, default=set())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """The illegal imports as (importer, imported, line number) in the check's metadata."""
        sources: set[str] = self.source_modules
        excepted: set[str] = self.except_modules or set()
        illegal: list[tuple[str, str, int | None]] = []
        for importer in sorted(graph.modules):
            own = [source for source in sources if is_within(importer, [source])]
            if not own or is_within(importer, excepted):
                continue
            root = importer.split(".")[0]
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                outside = imported == root or not is_within(imported, [root])
                if outside or is_within(imported, [*own, *self.allowed_modules]):
                    continue
                details = graph.get_import_details(importer=importer, imported=imported)
                illegal.extend((importer, imported, detail["line_number"]) for detail in details)
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints one line for each illegal import."""
        for importer, imported, line in check.metadata["illegal"]:
            output.print_error(f"{importer} is not allowed to import {imported} (line {line})")
        output.new_line()
