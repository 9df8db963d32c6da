"""The user's modules on the way to hosts that do not have them."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mustela.cli import main as command_line
from mustela.plan.user_code import CodeDamagedError, UserModule, install, sum_of
from mustela.runtime import user_code as collecting
from mustela.runtime.user_code import UserCodeTooLargeError, user_code
from mustela.spark.shipment import ship
from tests.unit.plan.test_epoch import program

FILES = {
    "shop_pkg/__init__.py": "",
    "shop_pkg/app.py": "import shop_prices\ndef total(n):\n    return shop_prices.of(n)\n",
    "shop_pkg/later.py": "later = True\n",
    "shop_pkg/data.json": "{}",
    "shop_prices.py": "def of(n):\n    return n * 3\n",
    "shop_beside.py": "beside = True\n",
    ".env": "PASSWORD=1",
    "mustela.yaml": "kafka: {}",
    "server.pem": "KEY",
    "not-a-module.py": "x",
}
NAMES = {"shop_pkg", "shop_pkg.app", "shop_pkg.later", "shop_prices", "shop_beside"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's directory, of which ``shop_pkg.app`` is imported."""
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    importlib.import_module("shop_pkg.app")
    yield tmp_path
    sys.meta_path[:] = finders
    for name in NAMES:
        sys.modules.pop(name, None)


def imported() -> list[UserModule]:
    return user_code({name: one for name, one in sys.modules.items() if name in NAMES})


def test_sources_alone_are_sent_those_of_the_package_and_beside_it(project: Path) -> None:
    """What functions import later is there too; settings, keys and data are never read."""
    found = imported()
    assert {one.name for one in found} == NAMES
    assert {Path(one.path).relative_to(project).suffix for one in found} == {".py"}


def test_a_directory_without_init_is_a_package_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be anything, as a home: packages in it that nothing was imported of stay there."""
    for name in ("app.py", "rules.py", "core/__init__.py", "core/deep/sums.py", "other/big.py"):
        file = tmp_path / "shop_space" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("shop_space", "shop_space.app", "shop_space.core")
    found = user_code({name: importlib.import_module(name) for name in names})
    wanted = {*names, "shop_space.rules", "shop_space.core.deep", "shop_space.core.deep.sums"}
    assert {one.name for one in found} == wanted
    code = (
        "from mustela.plan.user_code import UserModule, install\n"
        f"install([UserModule(*one) for one in {[tuple(one) for one in found]!r}], "
        f"{sum_of(found)!r})\n"
        "import shop_space.core.deep.sums\nfrom shop_space import app\nprint(app.value)\n"
    )
    command = [sys.executable, "-I", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "7\n"
    for name in names:
        sys.modules.pop(name, None)


def test_a_module_beside_the_main_one_hides_none_of_pythons_own(project: Path) -> None:
    """Started by ``python -m shop_pkg.app``, which is the main module then, not ``app``."""
    (project / "shop_pkg" / "queue.py").write_text("mine = True\n")
    main = ModuleType("__main__")
    main.__file__ = str(project / "shop_pkg" / "app.py")
    main.__spec__ = sys.modules["shop_pkg.app"].__spec__
    known = {name: one for name, one in sys.modules.items() if name in NAMES}
    found = {one.name for one in user_code({**known, "__main__": main})}
    assert found == {*NAMES, "shop_pkg.queue"}


def test_what_is_installed_is_not_sent() -> None:
    """It is installed on every host; and Mustela is none of the user's modules."""
    found = {one.name.partition(".")[0] for one in user_code()}
    assert not found & {"mustela", "mustela_dev", "pytest", "pyspark", "json", "msgspec"}


def test_a_process_without_the_files_imports_what_was_sent(project: Path) -> None:
    """In another process, whose path has nothing of the user's; tracebacks show the lines."""
    modules = imported()
    code = (
        "import sys, traceback\n"
        "from mustela.plan.user_code import UserModule, install\n"
        f"install([UserModule(*one) for one in {[tuple(one) for one in modules]!r}], "
        f"{sum_of(modules)!r})\n"
        "from shop_pkg.app import total\n"
        "import shop_pkg.later, shop_beside\n"
        "print(total(14), shop_pkg.later.__file__)\n"
        "try:\n    total(None)\nexcept TypeError:\n    print(traceback.format_exc())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"42 {project}/shop_pkg/later.py")
    assert "return n * 3" in done.stdout


def test_what_this_host_has_of_the_same_name_gives_way_and_a_new_release_too(
    project: Path,
) -> None:
    """A worker is used again for the next program, whose modules are others."""
    import shop_pkg.app  # type: ignore[import-not-found]

    assert shop_pkg.app.total(1) == 3
    for factor in (5, 7):
        changed = [
            one._replace(text=one.text.replace(b"3", str(factor).encode())) for one in imported()
        ]
        install(changed, sum_of(changed))
        assert importlib.import_module("shop_pkg.app").total(1) == factor
    before = sys.modules["shop_pkg.app"]
    install(changed, sum_of(changed))
    assert sys.modules["shop_pkg.app"] is before


@pytest.mark.usefixtures("project")
def test_modules_that_arrive_damaged_are_not_imported() -> None:
    """The sum is checked before the import."""
    modules = imported()
    shipment = ship(program(), code=modules)
    damaged = [one._replace(text=one.text + b"\n") for one in modules]
    with pytest.raises(CodeDamagedError):
        shipment._replace(code=tuple(damaged)).unpack()
    assert shipment.unpack().identity == program().identity


@pytest.mark.usefixtures("project")
def test_sources_that_are_too_large_are_installed_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """CODE_TOO_LARGE: what is installed does not count."""
    monkeypatch.setattr(collecting, "BYTES_MAX", 20)
    with pytest.raises(UserCodeTooLargeError) as caught:
        imported()
    assert "as a wheel" in (caught.value.fix or "")
    assert not user_code({"json": importlib.import_module("json")})


def test_what_lies_beside_mustelas_own_command_line_is_nobodys_program() -> None:
    """It may be the main program, and has modules whose names a user's may have."""
    main = ModuleType("__main__")
    main.__file__ = command_line.__file__
    assert user_code({"__main__": main}) == []
