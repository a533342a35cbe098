"""The contract that says what a room may import."""

from grimp import ImportGraph

from tools.import_contract import MayImportOnly


def illegal(imports: list[tuple[str, str]], **options: list[str]) -> list[tuple[str, str]]:
    graph = ImportGraph()
    for importer, imported in imports:
        graph.add_module(importer)
        graph.add_module(imported)
        graph.add_import(importer=importer, imported=imported, line_number=3, line_contents="import")
    contract = MayImportOnly("name", {"root_packages": ["house"]}, {"type": "may_import_only", **options})
    found = contract.check(graph, verbose=False).metadata["illegal"]
    return [(importer, imported) for importer, imported, _line in found]


def test_an_import_that_is_not_listed_is_illegal() -> None:
    imports = [("house.cli.jobs", "house.store.rows"), ("house.cli", "house.client.calls")]
    assert illegal(imports, source_modules=["house.cli"], allowed_modules=["house.client"]) == [imports[0]]


def test_the_root_the_room_itself_and_other_packages_are_allowed() -> None:
    imports = [("house.cli.a", "house"), ("house.cli.a", "house.cli.b"), ("house.cli.a", "numpy")]
    assert illegal(imports, source_modules=["house.cli"], allowed_modules=[]) == []


def test_one_source_may_not_import_another() -> None:
    imports = [("house.model.a", "house.locale.b")]
    assert illegal(imports, source_modules=["house.model", "house.locale"], allowed_modules=[]) == imports


def test_a_longer_name_with_the_same_beginning_is_another_room() -> None:
    imports = [("house.client", "house.store"), ("house.cli", "house.client")]
    assert illegal(imports, source_modules=["house.cli"], allowed_modules=["house.cl"]) == [imports[1]]


def test_an_excepted_module_is_not_looked_at() -> None:
    imports = [("house.cli.operators", "house.bootstrap")]
    options = {
        "source_modules": ["house.cli"],
        "allowed_modules": [],
        "except_modules": ["house.cli.operators"],
    }
    assert illegal(imports, **options) == []
