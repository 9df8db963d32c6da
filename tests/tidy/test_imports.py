"""What an import pulls in, looked at from a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import mustela
from mustela.spark import daemon
from tests.public import MODULES, names_of, public_names
from tests.tidy.conftest import PACKAGE, ROOT

DRIVER_ROOMS = {"cli", "dsl", "planner", "runtime"}


def loaded_by(statement: str) -> set[str]:
    """Run a statement in a new interpreter and name the modules it left behind."""
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("mustela.")}


def operator_modules() -> list[str]:
    files = (PACKAGE / "kernel").rglob("*.py")
    parts = (path.relative_to(PACKAGE.parent).with_suffix("").parts for path in files)
    return sorted(".".join(part) for part in parts if part[-1] != "__init__")


def test_the_facade_loads_nothing() -> None:
    """``import mustela`` is quick: no Spark, no Kafka client, no room but which form runs."""
    modules = loaded_by("import mustela")
    assert rooms(modules) == {"compiled"}
    assert modules.isdisjoint({"pyspark", "confluent_kafka", "pydantic", "lmdb"})


def test_the_kernel_does_not_pull_in_the_driver() -> None:
    """Executors load the kernel; they need neither the DSL nor the planner nor the runtime."""
    modules = loaded_by("\n".join(f"import {name}" for name in operator_modules()))
    assert rooms(modules).isdisjoint(DRIVER_ROOMS)
    assert modules.isdisjoint({"pyspark", "confluent_kafka", "pydantic", "pydantic_settings"})


@pytest.mark.skipif(
    not (PACKAGE / "spark" / "worker.py").exists(), reason="mustela.spark.worker is not there yet"
)
def test_the_worker_does_not_pull_in_the_driver() -> None:
    """What Spark's Python workers run stays light."""
    modules = loaded_by("\n".join(f"import {name}" for name in daemon._MODULES))
    assert rooms(modules).isdisjoint(DRIVER_ROOMS)
    assert modules.isdisjoint({"pydantic", "pydantic_settings", "cyclopts", "rich"})


def test_the_facade_names_what_it_offers() -> None:
    """``__all__``, the lazy table and ``dir()`` agree, and each name resolves."""
    assert sorted(mustela.__all__) == sorted(mustela._MODULE_OF)
    assert set(mustela.__all__) <= set(dir(mustela))
    for name, module in mustela._MODULE_OF.items():
        path = Path(*module.split(".")[1:]).with_suffix(".py")
        if (PACKAGE / path).exists():
            assert getattr(mustela, name) is not None


def test_each_name_has_one_home() -> None:
    """A name of the package may stand in a module by purpose, too; it is the same thing there."""
    homes: dict[str, set[object]] = {}
    for module in MODULES:
        for name, found in names_of(module).items():
            homes.setdefault(name, set()).add(found)
    assert all(len(found) == 1 for found in homes.values()), homes
    for name in mustela.__all__:
        assert homes.get(name, {getattr(mustela, name)}) == {getattr(mustela, name)}


def test_old_names_say_where_they_are() -> None:
    """For one release they are found as before, with a warning."""
    assert set(mustela._MOVED) <= set(public_names()) - set(mustela.__all__)
    for name in mustela._MOVED:
        with pytest.warns(DeprecationWarning, match=rf"is now mustela\.\w+\.{name};"):
            assert getattr(mustela, name) is public_names()[name]


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The facade answers like any module."""
    with pytest.raises(AttributeError, match="no attribute 'KStreams'"):
        mustela.KStreams  # noqa: B018


def test_every_module_lies_in_a_declared_room() -> None:
    """A new room is declared in the import contract before it holds code."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(c for c in contracts if c["id"] == "rooms")["layers"]
    declared = {room.strip(" ()") for layer in layers for room in layer.split("|")}
    present = {
        p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert present - {"__init__"} <= declared


def test_the_package_can_be_found() -> None:
    """The tests look at this tree, not at some other installed copy."""
    spec = find_spec("mustela")
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).parent == PACKAGE
