"""mustela image: an OCI image of an application, without a daemon and without a registry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from mustela.cli.console import ExitCode, Json, print_json, print_table, say
from mustela.errors import UsageError

if TYPE_CHECKING:
    from mustela.deploy.image.build import Contents, Image

__all__ = ["ImageOptionError", "group", "image", "lock"]

Sources = Annotated[Path | None, Parameter(name="--sources")]
Many = Annotated[list[str] | None, Parameter(negative=())]
_EPOCH = "SOURCE_DATE_EPOCH"


class ImageOptionError(UsageError):
    """Options of ``mustela image`` are missing or contradict each other."""

    code = "IMAGE_OPTIONS"


def group() -> App:
    """Return the commands ``mustela image …``."""
    app = App(name="image", help="Write an OCI image of an application.")
    app.default(image)
    app.command(lock)
    return app


def image(  # noqa: PLR0913 - its options are its interface
    target: str = ".",
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    base: Path | None = None,
    packages: Path | None = None,
    sources: Sources = None,
    environment: Path | None = None,
    extra: Annotated[Many, Parameter(name="--with")] = None,
    include: Many = None,
    label: Many = None,
    all_jars: Annotated[bool, Parameter(negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> int:
    """Write an OCI image of an application, without a daemon and without a registry.

    It holds Python, Java, what is installed here and the application needs, and the application,
    which runs as user 10001. The same input gives the same digest. The system is either an image
    to build on (--base) or Debian packages of a lock, which mustela image lock makes.

    Args:
        target: The application, module:app, or the directory of a project.
        output: A directory for an OCI layout, or a file called *.tar, for docker load.
        base: An OCI layout on disk to build on; with Python and Java.
        packages: The lock of Debian packages; by default image.lock of the project.
        sources: A sources.list for apt to fetch from, in place of this machine's.
        environment: The virtual environment that is copied; by default this one.
        extra: A distribution that goes in besides what the project needs; can be repeated.
        include: A pattern of files that go in besides modules and mustela.yaml; can be repeated.
        label: A label, name=value; can be repeated.
        all_jars: Put in Spark's jars for clusters, Hive and machine learning too.
        dry_run: Only show what would go in.
        json: Print JSON.
    """
    from mustela.deploy.image.applications import find_project
    from mustela.deploy.image.build import ImagePlan, build_image, contents_of
    from mustela.deploy.image.distributions import Environment
    from mustela.deploy.image.locks import LOCK_NAME
    from mustela.java import user_cache

    if base is not None and packages is not None:
        what = "an image is built on another one or of Debian packages, not on both"
        raise ImageOptionError(what, fix="leave out --base or --packages")
    if output is None and not dry_run:
        what = "where the image is to be written is not said"
        raise ImageOptionError(what, fix="--output shop.tar, or --dry-run to see what would go in")
    project = find_project(target, include=tuple(include or ()))
    here = Environment(_own_site()) if environment is None else Environment.at(environment)
    plan = ImagePlan(
        project=project,
        environment=here,
        packages=None if base is not None else packages or project.directory / LOCK_NAME,
        base=base,
        sources=sources,
        extra=tuple(extra or ()),
        all_jars=all_jars,
        labels=_labels(label or ()),
        epoch=_epoch(),
        cache=user_cache(os.environ) / "image",
    )
    if dry_run:
        _show_contents(project.target, contents_of(plan), json=json)
        return ExitCode.OK
    assert output is not None
    made = build_image(plan, say)
    made.write(output, epoch=plan.epoch)
    _show(made, output, json=json)
    return ExitCode.OK


def lock(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("image.lock"),
    sources: Sources = None,
    extra: Annotated[Many, Parameter(name="--with")] = None,
    json: Json = False,
) -> int:
    """Choose the Debian packages of images: write, or renew, their versions and sums.

    apt resolves them, from what it knows on this machine; nothing is installed. The lock names no
    mirror. Mirrors keep only the newest versions: renew the lock when it cannot be fetched any
    more, or keep to a snapshot with --sources.

    Args:
        output: The file that is written.
        sources: A sources.list for apt to use in place of this machine's.
        extra: A Debian package besides those that every image needs; can be repeated.
        json: Print JSON.
    """
    from mustela.deploy.image.layouts import alone
    from mustela.deploy.image.locks import Apt, make_lock
    from mustela.java import user_cache

    cache = user_cache(os.environ) / "image"
    with alone(cache):
        made = make_lock(Apt(cache / "apt", sources), extra=extra or ())
    changed = not output.is_file() or output.read_text(encoding="utf-8") != made.text()
    if changed:
        output.write_text(made.text(), encoding="utf-8")
    size = sum(one.size for one in made.packages)
    if json:
        told = {"output": output, "suite": made.suite, "architecture": made.architecture}
        print_json({**told, "packages": len(made.packages), "bytes": size, "changed": changed})
    else:
        state = "written" if changed else "as it was"
        what = f"{len(made.packages)} packages of {made.suite}, {size / 1e6:.0f} MB"
        print(f"{output}: {what}, {state}")
    return ExitCode.OK


def _own_site() -> Path:
    import sysconfig

    return Path(sysconfig.get_path("purelib"))


def _epoch() -> int:
    text = os.environ.get(_EPOCH, "0")
    if not text.isdigit():
        what = f"{_EPOCH} is {text!r}, which is no number of seconds"
        raise ImageOptionError(what, fix=f"{_EPOCH}=$(git log -1 --format=%ct), or unset it")
    return int(text)


def _labels(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, sign, value = one.partition("=")
        if not sign or not name:
            what = f"{one!r} is no label"
            raise ImageOptionError(what, fix="--label org.opencontainers.image.vendor=Example")
        found[name] = value
    return found


def _show_contents(target: str, contents: Contents, *, json: bool) -> None:
    if json:
        print_json({"target": target, **_contents_json(contents)})
        return
    print("\n".join([*contents.distributions, *contents.files]))
    _say_left_out(contents.left_out)


def _contents_json(contents: Contents) -> dict[str, Any]:
    return {
        "distributions": contents.distributions,
        "application": contents.files,
        "left_out": contents.left_out,
    }


def _say_left_out(left_out: Sequence[str]) -> None:
    if left_out:
        say(f"left out because of their names: {', '.join(left_out)}")


def _show(made: Image, output: Path, *, json: bool) -> None:
    layers = made.manifest.layers
    if json:
        rows: list[dict[str, Any]] = [
            {
                "name": one.name,
                "digest": one.digest,
                "size": one.size,
                "unpacked": one.unpacked,
                "reused": one.reused,
            }
            for one in layers
        ]
        print_json(
            {
                "output": output,
                "tag": made.manifest.tag,
                "digest": made.manifest.digest,
                "architecture": made.architecture,
                "entrypoint": made.entrypoint,
                "layers": rows,
                **_contents_json(made.contents),
            }
        )
        return
    mega = 1e6
    print_table(
        ["layer", "MB", "unpacked", "digest"],
        [(o.name, f"{o.size / mega:.1f}", f"{o.unpacked / mega:.1f}", o.digest) for o in layers],
    )
    total = sum(one.size for one in layers) / mega
    _say_left_out(made.contents.left_out)
    print(f"{made.manifest.tag} {made.manifest.digest}\n{output}: {total:.0f} MB")
