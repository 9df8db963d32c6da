"""A stand-in for Java that takes Kafka's place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mustela.java import Java
from mustela_dev import BrokerOptions
from mustela_dev.broker import process, tools
from mustela_dev.broker.jars import JarRequest
from tests.patience import PATIENCE_S

StandIn = Callable[[str], BrokerOptions]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Make options whose Java formats a directory as Kafka does and then runs a shell script."""

    def no_jars(*_: object, **__: object) -> str:
        return "jars"

    monkeypatch.setattr(process, "class_path", no_jars)
    monkeypatch.setattr(tools, "class_path", no_jars)

    def make(script: str) -> BrokerOptions:
        program = tmp_path / "java"
        program.write_text(
            "#!/bin/sh\n"
            'case "$*" in *"StorageTool format"*)\n'
            "  mkdir -p kafka && touch kafka/bootstrap.checkpoint\n"
            '  while [ "$1" != --cluster-id ]; do shift; done\n'
            '  echo "cluster.id=$2" > kafka/meta.properties; exit 0;;\n'
            "esac\n" + script
        )
        program.chmod(0o755)
        java = Java(home=tmp_path, version="17.0.1", executable=program)
        request = JarRequest(java=java, environment=dict(os.environ))
        return BrokerOptions(jars=request, start_timeout_s=PATIENCE_S, stop_timeout_s=PATIENCE_S)

    return make
