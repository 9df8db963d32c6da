"""mustela image: what it writes, from small environments and small images to build on."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mustela import App
from mustela.cli.image import ImageOptionError
from mustela.cli.main import main
from mustela.config.sparkjars import SPARE_JARS, is_spare
from mustela.deploy.image import build
from mustela.deploy.image.errors import (
    BaseError,
    DistributionError,
    ImageError,
    ImageLockError,
    ImageSecretError,
)
from mustela.deploy.manifests import Deployment, manifests
from mustela.errors import UsageError
from tests.unit.deploy.image.world import (
    BASE,
    MLLIB,
    PYTHON,
    make_base,
    make_environment,
    make_project,
    unpack,
    write_distribution,
)

pytestmark = pytest.mark.slow

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an environment, a project and an image to build on."""
    make_environment(tmp_path / "venv")
    make_project(tmp_path / "project")
    make_base(tmp_path / "base", BASE, environment=("PATH=/usr/local/bin:/bin", "TZ=UTC"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def image(world: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command and returns what it prints."""

    def run(*arguments: str, base: Path = Path("../base"), **more: Path) -> dict[str, Any]:
        environment = more.get("environment", world / "venv")
        places = ("--environment", str(environment), "--base", str(base))
        code = main(["image", *arguments, *places, "--json"])
        told = capsys.readouterr()
        if code:
            pytest.fail(told.err)
        return json.loads(told.out)

    return run


def refused(capsys: pytest.CaptureFixture[str], kind: type[UsageError], *arguments: str) -> str:
    """What the command says as it refuses."""
    capsys.readouterr()
    assert main(["image", *arguments]) == 2
    text = capsys.readouterr().err
    assert re.search(rf"^  code: +{kind.code}$", text, re.MULTILINE), text
    return text


def test_an_image_runs_the_application_as_nobody_in_particular(image: Run, tmp_path: Path) -> None:
    """Python, Java, what the application needs and the application are where its settings say."""
    made = image("--output", "../shop", "--label", "org.opencontainers.image.vendor=Example")
    config = unpack(tmp_path / "shop", tmp_path / "root")
    settings = config["config"]
    variables = dict(one.split("=", 1) for one in settings["Env"])
    assert settings["Entrypoint"] == ["/opt/mustela/bin/mustela", "run", "corner_shop.app:app"]
    assert (settings["User"], settings["WorkingDir"]) == ("10001:10001", "/app")
    assert (settings["StopSignal"], settings["ExposedPorts"]) == ("SIGTERM", {"8081/tcp": {}})
    assert variables["PATH"] == "/opt/mustela/bin:/usr/local/bin:/bin"
    assert variables["JAVA_HOME"] == "/usr/lib/jvm/temurin"
    assert variables["TZ"] == "UTC"
    assert variables["MUSTELA__STATE_DIR"] == "/state"
    assert settings["Labels"]["org.opencontainers.image.title"] == "corner-shop"
    assert settings["Labels"]["org.opencontainers.image.vendor"] == "Example"
    root = tmp_path / "root"
    assert os.readlink(root / "opt/mustela/bin/python") == f"/usr/local/bin/{PYTHON}"
    script = (root / "opt/mustela/bin/mustela").read_text(encoding="utf-8")
    assert script.startswith("#!/opt/mustela/bin/python\n")
    assert os.access(root / "opt/mustela/bin/mustela", os.X_OK)
    site = root / "opt/mustela/lib" / PYTHON / "site-packages"
    assert (site / "pyspark/jars/spark.jar").read_text(encoding="utf-8") == "jar"
    assert "mustela:x:10001:" in (root / "etc/passwd").read_text(encoding="utf-8")
    assert (
        (root / "etc/passwd").read_text(encoding="utf-8").startswith("root:x:0:0::/root:/bin/sh\n")
    )
    names = ["base 1", "base 2", "spark", "libraries", "mustela", "application"]
    assert [layer["name"] for layer in made["layers"]] == names
    told = [one["created_by"].removeprefix("mustela image: ") for one in config["history"]]
    assert told == names
    assert made["distributions"] == ["mustela==0.1.0", "py4j==1.0", "pyspark==1.0"]


def test_manifests_fit_the_image(image: Run, tmp_path: Path) -> None:
    """The command, the user, the probe's port and the volume that `mustela k8s` prints."""
    image("--output", "../shop")
    settings = unpack(tmp_path / "shop", tmp_path / "root")["config"]
    app = App("shop", {"bootstrap.servers": "kafka:9092"})
    named = Deployment(target="corner_shop.app:app", image="corner-shop:1.4")
    pod = manifests(app, named)[1]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    program, *rest = container["command"]
    path = next(one for one in settings["Env"] if one.startswith("PATH=")).removeprefix("PATH=")
    assert (tmp_path / "root" / path.split(":")[0].strip("/") / program).is_file()
    assert [f"{path.split(':')[0]}/{program}", *rest] == settings["Entrypoint"]
    user = pod["securityContext"]
    assert settings["User"] == f"{user['runAsUser']}:{user['runAsGroup']}"
    assert f"{container['ports'][0]['containerPort']}/tcp" in settings["ExposedPorts"]
    assert set(settings["Volumes"]) <= {one["mountPath"] for one in container["volumeMounts"]}


def test_what_goes_in_is_what_can_be_imported(
    image: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither tests nor notes, and never what is called like a secret."""
    shown = image("--dry-run", "--include", "schemas/*.avsc")
    package = ["/app/corner_shop/__init__.py", "/app/corner_shop/app.py"]
    files = [*package, "/app/corner_shop/prices.json", "/app/mustela.yaml"]
    assert shown["application"] == [*files, "/app/schemas/order.avsc"]
    assert shown["left_out"] == ["corner_shop/.env", "corner_shop/server.pem"]
    Path(".mustelaignore").write_text("# data\n*.json\ncorner_shop/old/\n", encoding="utf-8")
    Path("corner_shop/old").mkdir()
    Path("corner_shop/old/x.py").write_text("", encoding="utf-8")
    assert image("--dry-run")["application"] == [*package, "/app/mustela.yaml"]
    image("--output", "../shop")
    unpack(tmp_path / "shop", tmp_path / "root")
    everything = [
        str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*")
    ]
    assert not [
        path for path in everything if path.endswith((".pem", ".env", ".json", "direct_url.json"))
    ]
    assert main(["image", "--dry-run", "--environment", "../venv", "--base", "../base"]) == 0
    printed = capsys.readouterr()
    assert "pyspark==1.0\n/app/corner_shop/__init__.py" in printed.out
    assert "left out because of their names: corner_shop/.env" in printed.err


def test_the_same_input_gives_the_same_digest_anywhere_and_at_any_time(
    image: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From other directories, with other times and rights of files, without what was kept."""
    first = image("--output", "../shop")
    assert {layer["reused"] for layer in image("--output", "../shop")["layers"]} == {True}
    other = tmp_path / "elsewhere"
    make_project(other / "deep" / "project")
    make_environment(other / "environment")
    for number, file in enumerate(sorted(other.rglob("*"))):
        os.utime(file, (number * 1000, number * 1000))
        file.chmod(0o700 if file.is_dir() else 0o600)
    (other / "deep/project/corner_shop/__pycache__/more.pyc").write_bytes(b"1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(other / "cache"))
    monkeypatch.chdir(other)
    places = {"environment": other / "environment", "base": tmp_path / "base"}
    again = image("deep/project", "--output", "again", **places)
    assert not any(layer["reused"] for layer in again["layers"][2:])
    assert again["digest"] == first["digest"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    dated = image("deep/project", "--output", "dated", **places)
    assert dated["digest"] != first["digest"]
    with tarfile.open(
        other / "dated/blobs" / dated["layers"][-1]["digest"].replace(":", "/")
    ) as tar:
        assert {member.mtime for member in tar} == {1_000_000_000}


def test_builds_at_the_same_time_wait_for_each_other(
    image: Run, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They share what is kept: one must not delete, or half write, what another reads."""
    seen: list[str] = []
    whole = build._build

    def look(*arguments: Any) -> build.Image:
        with (world / "cache/mustela/image/lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append("taken")
        return whole(*arguments)

    monkeypatch.setattr(build, "_build", look)
    image("--output", "../shop")
    assert seen == ["taken"]


def test_a_changed_application_changes_the_last_layer_alone(image: Run) -> None:
    """A new version is a small upload: all other layers are there already."""
    before = image("--output", "../shop")["layers"]
    Path("corner_shop/app.py").write_text("app = 2\n", encoding="utf-8")
    after = image("--output", "../shop")["layers"]
    changed = [old["digest"] != new["digest"] for old, new in zip(before, after, strict=True)]
    assert changed == [False] * 5 + [True]


def test_jars_that_no_application_loads_stay_out_unless_asked_for(
    image: Run, tmp_path: Path
) -> None:
    """They are half of PySpark; a cluster of Kubernetes needs them."""
    site = f"opt/mustela/lib/{PYTHON}/site-packages"
    for directory, options in (("lean", ()), ("whole", ("--all-jars",))):
        image("--output", f"../{directory}", *options)
        root = tmp_path / f"root-{directory}"
        unpack(tmp_path / directory, root)
        assert (root / site / MLLIB).exists() is (directory == "whole")
        record = (root / site / "pyspark-1.0.dist-info/RECORD").read_text(encoding="utf-8")
        assert (MLLIB in record) is (directory == "whole")


def test_each_pattern_of_jars_is_of_this_pyspark() -> None:
    """A pattern that fits nothing is of another release, which may call it otherwise."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    jars = Path(found.origin).parent / "jars"
    names = [str(file.relative_to(jars)) for file in jars.rglob("*.jar")]
    for pattern in SPARE_JARS:
        assert any(fnmatchcase(name, pattern) for name in names), pattern
    kept = [name for name in names if not is_spare(name)]
    assert {"spark-core", "spark-sql", "scala-library", "py4j", "netty-transport"} <= {
        re.split(r"_2\.13|-\d", name)[0] for name in kept
    }


def test_a_tar_holds_what_docker_and_podman_read(image: Run, tmp_path: Path) -> None:
    """An OCI layout, with the list that Docker before 25 reads; the same bytes each time."""
    made = image("--output", "../shop.tar")
    image("--output", "../again.tar")
    assert (tmp_path / "shop.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    with tarfile.open(tmp_path / "shop.tar") as tar:
        tar.extractall(tmp_path / "layout", filter="data")
    unpack(tmp_path / "layout", tmp_path / "root")
    [listed] = json.loads((tmp_path / "layout/manifest.json").read_bytes())
    assert listed["RepoTags"] == ["corner-shop:1.4"] == [made["tag"]]
    for path in (listed["Config"], *listed["Layers"]):
        assert (tmp_path / "layout" / path).is_file()


def test_modules_are_compiled_and_python_takes_what_is_compiled(image: Run, tmp_path: Path) -> None:
    """Nobody can write to the image: what is not compiled there is compiled at each start."""
    image("--output", "../shop")
    unpack(tmp_path / "shop", tmp_path / "root")
    site = tmp_path / "root/opt/mustela/lib" / PYTHON / "site-packages"
    for directory, source, edited in (
        (site, "pyspark/__init__.py", 1),
        (tmp_path / "root/app", "corner_shop/app.py", 2),
    ):
        file = directory / source
        module = source.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        # Installed modules are not compared with their source; those of the application are.
        file.write_text("x = app = 2\n", encoding="utf-8")
        program = f"import {module} as m; print(m.__cached__, getattr(m, 'x', None) or m.app)"
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=directory,
            capture_output=True,
            text=True,
            check=True,
        )
        cached, value = ran.stdout.split()
        assert Path(cached).is_file()
        assert int(value) == edited


def test_a_file_that_was_changed_after_its_installation_is_refused(
    image: Run, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was installed with hashes is what goes in; installing it again helps."""
    options = ("--environment", "../venv", "--base", "../base", "-o", "../shop")
    file = world / "venv/lib" / PYTHON / "site-packages/pyspark/jars/spark.jar"
    file.write_text("another", encoding="utf-8")
    text = refused(capsys, DistributionError, *options)
    assert "pyspark/jars/spark.jar of pyspark 1.0 is not what was installed" in text
    assert "pip install --force-reinstall --no-deps pyspark==1.0" in text
    file.write_text("jar", encoding="utf-8")
    assert image("-o", "../shop")
    file.unlink()
    assert "is not what was installed" in refused(capsys, DistributionError, *options)


def test_what_is_needed_and_not_installed_is_named(
    image: Run, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the project, by what it needs, and in a version that does not do."""
    options = ("--environment", "../venv", "--base", "../base", "--dry-run")
    text = refused(capsys, DistributionError, *options, "--with", "pyspark[more]")
    assert "pyspark needs pandas, but it is not installed" in text
    text = refused(capsys, DistributionError, *options, "--with", "py4j>=3")
    assert "needs py4j>=3, but 1.0 is installed" in text
    site = world / "venv/lib" / PYTHON / "site-packages"
    write_distribution(site, "pandas", "3.0")
    shown = image("--dry-run", "--with", "pyspark[more]", "--with", "rate_limits")
    wanted = ["mustela==0.1.0", "pandas==3.0", "py4j==1.0", "pyspark==1.0", "rate-limits==2.5"]
    assert shown["distributions"] == wanted


def test_an_environment_of_another_python_is_refused(
    world: Path, image: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Extension modules are built for one version; one of the image's Python is taken."""
    make_environment(world / "other", "python3.99")
    text = refused(
        capsys, DistributionError, "--environment", "../other", "--base", "../base", "-o", "../shop"
    )
    assert "is of Python 3.99" in text
    assert image("-o", "../shop")
    text = refused(capsys, ImageError, "--environment", "..", "--base", "../base", "-o", "../s")
    assert "--environment .venv" in text


def test_a_secret_in_the_settings_is_refused(
    image: Run, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody who has the image could read it; the environment of a pod is its own."""
    for text in ("kafka:\n  sasl.password: x\n", "schema_registry_url: http://joe:x@registry\n"):
        Path("mustela.yaml").write_text(text, encoding="utf-8")
        said = refused(
            capsys, ImageSecretError, "--environment", "../venv", "--base", "../base", "--dry-run"
        )
        assert "x@" not in said
    Path("mustela.yaml").write_text("kafka:\n  sasl.password: x\n", encoding="utf-8")
    said = refused(
        capsys, ImageSecretError, "--environment", "../venv", "--base", "../base", "--dry-run"
    )
    assert "as MUSTELA__KAFKA__SASL_PASSWORD" in said
    Path("mustela.yaml").write_text("kafka:\n  sasl.username: x\n", encoding="utf-8")
    assert image("--dry-run")


def test_settings_of_the_project_are_not_overruled(image: Run, tmp_path: Path) -> None:
    """What the image says only where the project says nothing."""
    Path("mustela.yaml").write_text("log: {format: console}\nstate_dir: /data\n", encoding="utf-8")
    image("-o", "../shop")
    variables = unpack(tmp_path / "shop", tmp_path / "root")["config"]["Env"]
    named = [one.partition("=")[0] for one in variables if one.startswith("MUSTELA__")]
    assert named == [
        "MUSTELA__ADMIN__ENABLED",
        "MUSTELA__ADMIN__LISTEN",
        "MUSTELA__ADMIN__PROBE_LISTEN",
    ]


def test_an_application_that_cannot_be_seen_is_asked_for(
    image: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, or the project says it; nothing of the program is run to find out."""
    options = ("--environment", "../venv", "--base", "../base", "--dry-run")
    Path("other").mkdir()
    Path("other/app.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    text = refused(capsys, ImageError, *options)
    assert "corner_shop.app and other.app" in text
    assert "there is no module 'shop.app'" in refused(capsys, ImageError, "shop.app:app", *options)
    assert image("corner_shop.app", "--dry-run")["target"] == "corner_shop.app:app"
    assert "/app/other/app.py" in image("other.app:main", "--dry-run")["application"]
    about = Path("pyproject.toml").read_text(encoding="utf-8")
    own = '[tool.mustela.image]\ntarget = "other.app:app"\ninclude = ["schemas/*"]\n'
    Path("pyproject.toml").write_text(about + own, encoding="utf-8")
    shown = image("--dry-run")
    assert shown["target"] == "other.app:app"
    assert "/app/schemas/order.avsc" in shown["application"]
    text = refused(capsys, ImageError, *options, "--include", "none/*")
    assert "no file of" in text


def test_what_is_said_wrongly_is_answered(
    image: Run, world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refusal says what to type, and that helps."""

    def said(*arguments: str, kind: type[UsageError] = ImageOptionError) -> str:
        return refused(capsys, kind, *arguments, "--environment", "../venv")

    assert "--output shop.tar" in said("--base", "../base")
    both = ("--base", "../base", "--packages", "image.lock", "-o", "../shop")
    assert "leave out --base or --packages" in said(*both)
    assert "--label org.opencontainers" in said("--base", "../base", "--label", "x", "--dry-run")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    assert "SOURCE_DATE_EPOCH=$(git log" in said("--base", "../base", "--dry-run")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert image("--output", "shop.tar", "--label", "org.opencontainers.image.vendor=Example")
    (world / "mine").mkdir()
    (world / "mine/kept").write_text("1", encoding="utf-8")
    text = said("--base", "../base", "-o", "../mine", kind=ImageError)
    assert "holds something that is no OCI layout" in text
    assert (world / "mine/kept").is_file()
    for place in ("../mine/kept/shop.tar", "../mine/kept/shop"):
        text = said("--base", "../base", "-o", place, kind=ImageError)
        assert f"{place} cannot be written" in text
    text = said("-o", "../shop", kind=ImageLockError)
    assert "mustela image lock --output image.lock" in text


@pytest.mark.parametrize(
    ("layers", "part"),
    [
        (({"usr/lib/jvm/x/bin/java": b""},), "no python3"),
        (({f"usr/bin/{PYTHON}": b"", "usr/bin/python3": PYTHON},), "no Java"),
        (
            (
                {f"usr/bin/{PYTHON}": b"", "usr/bin/python3": PYTHON, "opt/jre/bin/java": b""},
                {"opt/.wh..wh..opq": b""},
            ),
            "no Java",
        ),
        (({"usr/bin/python3": "../bin/python3", "usr/bin/java": b""},), "no python3"),
    ],
)
def test_an_image_that_lacks_something_is_not_built_on(
    world: Path,
    image: Run,
    capsys: pytest.CaptureFixture[str],
    layers: tuple[dict[str, bytes | str], ...],
    part: str,
) -> None:
    """Also what a later layer took away; one that has all of it is."""
    make_base(world / "bare", layers)
    options = ("--environment", "../venv", "-o", "../shop")
    text = refused(capsys, BaseError, "--base", "../bare", *options)
    assert part in text
    assert "name one with Python and Java" in text
    assert image("-o", "../shop")


def test_an_image_that_cannot_be_read_is_not_built_on(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that is none, that is damaged, or that is for another processor."""
    options = ("--environment", "../venv", "-o", "../shop", "--base")
    assert "is no OCI layout" in refused(capsys, BaseError, *options, "..")
    make_base(world / "other", BASE, architecture="s390x")
    assert "is for s390x" in refused(capsys, BaseError, *options, "../other")
    blob = max((world / "base/blobs/sha256").iterdir(), key=lambda file: file.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    assert "is damaged" in refused(capsys, BaseError, *options, "../base")
    (world / "base/index.json").write_text("{}", encoding="utf-8")
    assert "cannot be read as an OCI layout" in refused(capsys, BaseError, *options, "../base")
