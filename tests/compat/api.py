"""Kafka Streams' public methods, read from its jars with javap."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mustela.java import Java

__all__ = ["CLASSES", "Methods", "added", "committed", "read_methods"]

Methods = Mapping[str, Mapping[str, Sequence[str]]]
"""Signatures by class and method; overloads for other kinds of inputs are methods of their own."""

_FILE = Path(__file__).parent / "kafka_streams.json"
_STREAMS = "org.apache.kafka.streams."
CLASSES: tuple[str, ...] = (
    "StreamsBuilder",
    "Topology",
    "AutoOffsetReset",
    "kstream.KStream",
    "kstream.BranchedKStream",
    "kstream.KTable",
    "kstream.GlobalKTable",
    "kstream.KGroupedStream",
    "kstream.KGroupedTable",
    "kstream.CogroupedKStream",
    "kstream.TimeWindowedKStream",
    "kstream.SessionWindowedKStream",
    "kstream.TimeWindowedCogroupedKStream",
    "kstream.SessionWindowedCogroupedKStream",
    "kstream.TimeWindows",
    "kstream.SlidingWindows",
    "kstream.SessionWindows",
    "kstream.UnlimitedWindows",
    "kstream.JoinWindows",
    "kstream.Windowed",
    "kstream.Window",
    "kstream.WindowedSerdes",
    "kstream.Consumed",
    "kstream.Produced",
    "kstream.Grouped",
    "kstream.Joined",
    "kstream.StreamJoined",
    "kstream.TableJoined",
    "kstream.Materialized",
    "kstream.Repartitioned",
    "kstream.Branched",
    "kstream.Printed",
    "kstream.Named",
    "kstream.EmitStrategy",
    "kstream.Suppressed",
    "kstream.Suppressed$BufferConfig",
    "kstream.Suppressed$EagerBufferConfig",
    "kstream.Suppressed$StrictBufferConfig",
    "processor.TimestampExtractor",
    "processor.TopicNameExtractor",
    "processor.StreamPartitioner",
    "processor.api.ProcessorSupplier",
    "processor.api.Processor",
    "processor.api.ContextualProcessor",
    "processor.api.FixedKeyProcessorSupplier",
    "processor.api.FixedKeyProcessor",
    "processor.api.ContextualFixedKeyProcessor",
    "processor.api.ProcessingContext",
    "processor.api.ProcessorContext",
    "processor.api.FixedKeyProcessorContext",
    "processor.api.Record",
    "processor.api.FixedKeyRecord",
    "processor.api.RecordMetadata",
    "processor.api.ProcessorWrapper",
    "processor.Cancellable",
    "processor.Punctuator",
    "processor.ConnectedStoreProvider",
    "state.Stores",
    "state.StoreBuilder",
    "state.ReadOnlyKeyValueStore",
    "state.KeyValueStore",
    "state.VersionedKeyValueStore",
    "state.ReadOnlyWindowStore",
    "state.WindowStore",
    "state.ReadOnlySessionStore",
    "state.SessionStore",
    "TopologyTestDriver",
    "TestInputTopic",
    "TestOutputTopic",
    "processor.api.MockProcessorContext",
    "processor.api.MockProcessorContext$CapturedForward",
    "processor.api.MockProcessorContext$CapturedPunctuator",
)
"""The classes of the matrix, without ``org.apache.kafka.streams.``."""

_METHOD = re.compile(r"^  public (?P<before>[^(]*?)(?P<name>[\w$.]+)\((?P<arguments>.*)\)[^)]*;$")
_PACKAGE = re.compile(r"\b(?:[a-z]\w*\.)+(?=[A-Z])")
# What a join joins with, or a stream reads, tells apart methods that share a name.
_KINDS = ("KStream", "KTable", "GlobalKTable")
_OWN = {"equals", "hashCode", "toString", "getClass", "wait", "notify", "notifyAll"}


def read_methods(java: Java, jars: Iterable[Path]) -> Methods:
    """Return the public methods of the classes, without those of every object."""
    classpath = os.pathsep.join(map(str, jars))
    command = [str(java.executable.with_name("javap")), "-public", "-cp", classpath]
    command += [_STREAMS + name for name in CLASSES]
    told = subprocess.run(
        command, check=False, capture_output=True, text=True, env=java.environment(os.environ)
    ).stdout
    found: dict[str, dict[str, list[str]]] = {}
    for name, body in re.findall(
        r"^[^\n]*?\b(?:class|interface) ([\w.$]+)[^\n]*\{\n(.*?)^\}", told, re.M | re.S
    ):
        methods = found.setdefault(_short(name), {})
        for line in body.splitlines():
            match = _METHOD.match(line)
            if match is None:
                continue
            arguments = _PACKAGE.sub("", match["arguments"])
            method = match["name"].rpartition(".")[2]
            if method in _OWN:
                continue
            constructor = match["name"] == name or match["name"].endswith("." + _short(name))
            title = "new" if constructor else _title(method, arguments)
            methods.setdefault(title, []).append(f"{method}({arguments})")
    return {owner: {m: sorted(s) for m, s in sorted(own.items())} for owner, own in found.items()}


def _short(name: str) -> str:
    return name.rpartition(".")[2].replace("$", ".")


def _title(method: str, arguments: str) -> str:
    first = arguments.partition("<")[0]
    if method.lower().endswith("join") and first in _KINDS:
        foreign = re.search(r"\b(Bi)?Function<", arguments)
        return f"{method}({first}{', foreign key' if foreign else ''})"
    return method


def added(later: Methods, earlier: Methods) -> Methods:
    """Return the methods and overloads that the later release has and the earlier one lacks."""
    found: dict[str, dict[str, list[str]]] = {}
    for owner, methods in later.items():
        for method, signatures in methods.items():
            known = earlier.get(owner, {}).get(method, ())
            new = [signature for signature in signatures if signature not in known]
            if new:
                found.setdefault(owner, {})[method] = new
    return found


def committed() -> dict[str, Methods]:
    """Return the lists that the repository carries, by release; the first is compared with."""
    return json.loads(_FILE.read_text(encoding="utf-8"))
