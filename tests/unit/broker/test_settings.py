"""The broker's properties and Java options."""

from __future__ import annotations

from mustela_dev.broker.settings import jvm_options, properties_text, server_properties


def test_the_broker_listens_on_loopback_only() -> None:
    """Every address in the properties is 127.0.0.1."""
    properties = server_properties(1234, 5678)
    for name in ("listeners", "advertised.listeners", "controller.quorum.voters"):
        for address in properties[name].split(","):
            assert "127.0.0.1:" in address


def test_one_broker_is_enough_for_every_internal_topic() -> None:
    """Kafka's defaults ask for three."""
    properties = server_properties(1, 2)
    wanted = ("replication.factor", "min.isr", "min.insync.replicas")
    counts = {name: value for name, value in properties.items() if name.endswith(wanted)}
    assert len(counts) == 7
    assert set(counts.values()) == {"1"}


def test_nothing_is_deleted_by_age_and_no_topic_comes_by_itself() -> None:
    """Records with old timestamps stay; a misspelt topic is an error."""
    properties = server_properties(1, 2)
    assert properties["log.retention.ms"] == "-1"
    assert properties["auto.create.topics.enable"] == "false"


def test_the_callers_properties_win() -> None:
    """Each may be changed, and others added."""
    properties = server_properties(1, 2, {"num.io.threads": "1", "message.max.bytes": "99"})
    assert properties["num.io.threads"] == "1"
    assert properties["message.max.bytes"] == "99"


def test_properties_are_escaped_as_java_reads_them() -> None:
    """Backslashes, line ends, leading blanks and letters beyond ASCII."""
    text = properties_text({"a": "C:\\x", "b": " two\nlines", "c": "é😀", "d=e": "#f"})
    assert text == ("a=C:\\\\x\nb=\\ two\\nlines\nc=\\u00e9\\ud83d\\ude00\nd\\=e=\\#f\n")


def test_a_fast_start_compiles_less() -> None:
    """It is an option, because it is slower under load."""
    assert "-XX:TieredStopAtLevel=1" in jvm_options(heap_mb=256, fast_start=True)
    assert "-XX:TieredStopAtLevel=1" not in jvm_options(heap_mb=256, fast_start=False)
    assert "-Xmx64m" in jvm_options(heap_mb=64, fast_start=True)
    assert "-Xms64m" in jvm_options(heap_mb=64, fast_start=True)
