"""mustela new, k8s and submit-script: a project, and what brings it to where it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mustela.cli.applications import Assignments, Target, parse_assignments
from mustela.cli.console import ExitCode, Json, print_json, say
from mustela.cli.loading import load_app
from mustela.errors import UsageError

__all__ = ["k8s", "new", "submit_script"]

_SCRIPT = '''\
"""Runs an application: spark-submit [its options] {name} module:app [options of mustela run]."""

import sys

from mustela.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
'''


class ScriptExistsError(UsageError):
    """A file that Mustela did not write is where it should write one."""

    code = "SCRIPT_EXISTS"


def new(
    directory: Path,
    /,
    *,
    name: str | None = None,
    update: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> int:
    """Write a project: a topology, its tests, settings, Dockerfile, compose file, manifests, CI.

    Args:
        directory: Where it is written; a new or an empty directory.
        name: Of the project and its application; by default that of the directory.
        update: Renew what an older release wrote; package, tests, settings and README stay.
        json: Print the files that were written as JSON.
    """
    from mustela.deploy.projects import update_project, write_project

    written = update_project(directory) if update else write_project(directory, name)
    if json:
        print_json({"directory": str(directory), "written": written})
        return ExitCode.OK
    for path in written:
        print(directory / path)
    if not update:
        say(f"next: cd {directory} && pip install -e '.[test]' && pytest; see README.md there")
    return ExitCode.OK


def submit_script(file: Path = Path("run.py"), /, *, json: Json = False) -> int:
    """Write the file that spark-submit runs, in place of mustela run.

    spark-submit --master spark://master:7077 run.py shop.app:app. Options after the application are
    those of mustela run. The driver must be able to import Mustela and the program; start it where
    the program is.

    Args:
        file: Where it is written.
        json: Print its path as JSON.
    """
    text = _SCRIPT.format(name=file.name)
    if file.exists() and file.read_text(encoding="utf-8", errors="replace") != text:
        msg = f"{file} exists, and is another file"
        raise ScriptExistsError(
            msg,
            why="a file of yours would be lost",
            fix=f"name another one: mustela submit-script {file.with_name('submit_' + file.name)}",
            fields={"file": str(file)},
        )
    file.write_text(text, encoding="utf-8")
    if json:
        print_json({"file": str(file)})
        return ExitCode.OK
    print(file)
    say(f"next: spark-submit --master spark://HOST:7077 {file} module:app")
    return ExitCode.OK


def k8s(  # noqa: PLR0913 - its options are its interface
    target: Target,
    /,
    *,
    image: str,
    name: str | None = None,
    namespace: Annotated[str | None, Parameter(name=["--namespace", "-n"])] = None,
    cpu: str = "1",
    memory: str = "2Gi",
    state_size: str = "20Gi",
    storage_class: str | None = None,
    admin_secret: str | None = None,
    mount_secret: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    standby: Annotated[bool, Parameter(name="--standby", negative=())] = False,
    executors: int | None = None,
    executor_image: str | None = None,
    executor_cpu: str = "2",
    executor_memory: str = "2Gi",
    executor_state_size: str | None = None,
    set: Assignments = None,
    json: Json = False,
) -> int:
    """Print Kubernetes manifests: a StatefulSet of one replica with its volume, and a Service.

    With --executors the lanes run in pods of their own, which Spark makes: then there is also what
    allows that, and what keeps others from their ports.

    The pod gets the settings that the application has here, also those of mustela.yaml and of the
    environment; secret ones are taken from a Secret, and the command that makes it is printed on
    standard error. mustela k8s shop:app --image shop:1.4 | kubectl apply -f -

    Args:
        target: The module, and the name of the application in it.
        image: The image that holds Python, Java, Mustela and the program, such as mustela image
            writes it.
        name: Name of what is made; by default the application id.
        namespace: Namespace of what is made; with executors it is default, unless you say it.
        cpu: Processors: 500m, 2; also the number of lanes, if no setting says it.
        memory: Memory of the pod: driver, JVM and workers.
        state_size: Size of the volume that keeps the state.
        storage_class: Storage class of the volumes.
        admin_secret: Secret with a certificate and tokens; opens the admin server to the cluster.
        mount_secret: A Secret with files, such as certificates, and its directory in all pods:
            kafka-tls=/etc/kafka. Repeatable.
        standby: Two replicas, each with its volume: one runs, and the other one takes over.
        executors: Pods that run the lanes; by default the application's own pod does.
        executor_image: Image of the executors; by default that of the application.
        executor_cpu: Processors of each executor; also how many lanes it runs at once.
        executor_memory: Memory of each executor's pod: JVM and workers.
        executor_state_size: Size of a volume for each executor's state, which is on the disk of its
            node otherwise; takes --storage-class.
        set: Settings, as for a run: the pod's command has them, but for secret ones.
        json: Print a JSON List instead of YAML.
    """
    from mustela.deploy.executors import Executors
    from mustela.deploy.manifests import Deployment, files_of, manifests, secrets_of, text_of
    from mustela.deploy.pods import read_mounts

    app = load_app(target)
    given = parse_assignments(set or ())
    app.configure(**given)
    app.check_program()
    pods = None
    if executors is not None:
        pods = Executors(
            count=executors,
            image=executor_image,
            cpu=executor_cpu,
            memory=executor_memory,
            state_size=executor_state_size,
        )
    deployment = Deployment(
        target=target,
        image=image,
        name=name,
        namespace=namespace,
        cpu=cpu,
        memory=memory,
        state_size=state_size,
        storage_class=storage_class,
        admin_secret=admin_secret,
        standby=standby,
        executors=pods,
        secrets=read_mounts(mount_secret),
        given=given,
    )
    found = manifests(app, deployment)
    if json:
        print_json({"apiVersion": "v1", "kind": "List", "items": found})
    else:
        print(text_of(found), end="")
    _say_what_is_missing(secrets_of(app.settings, given), found[-1]["metadata"])
    for key in files_of(app.settings, deployment.secrets):
        say(f"{key} is a file: the image must have it, or a Secret (--mount-secret NAME=DIRECTORY)")
    return ExitCode.OK


def _say_what_is_missing(secrets: list[str], made: dict[str, Any]) -> None:
    if secrets:
        literals = " ".join(f'--from-literal={key}="${key}"' for key in secrets)
        where = f" -n {made['namespace']}" if "namespace" in made else ""
        name = f"{made['name']}-secrets"
        say(f"make the secret first: kubectl create secret generic {name}{where} {literals}")
