"""Canaries: secrets that are planted wherever one may stand are in nothing that is printed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mustela.cli.main import main
from mustela.config.settings import Settings
from mustela.errors import EnvironmentFault
from mustela.logs.options import LogOptions
from mustela.logs.output import LogOutput, Relay
from mustela.plan.letters import letter_headers
from mustela.runtime.life.life import Life
from tests.bare_logging import bare_logging

JAAS = 'org.apache.kafka.ScramLoginModule required username="joe" password="canary-jaas";'
PLANTED = {
    "kafka.sasl.password": "canary-sasl",
    "kafka.ssl.key.password": "canary-tls",
    "kafka.sasl.oauthbearer.client.secret": "canary-oauth",
    "schema_registry.basic.auth.user.info": "joe:canary-registry",
    "schema_registry.bearer.auth.credentials.source": "OAUTHBEARER",
    "schema_registry.bearer.auth.issuer.endpoint.url": "https://login/token",
    "schema_registry.bearer.auth.client.id": "joe",
    "schema_registry.bearer.auth.client.secret": "canary-provider",
    "schema_registry.url": "https://joe:canary-url@registry:8081",
    "spark.hadoop.fs.s3a.secret.key": "canary-spark",
    "spark.driver.extraJavaOptions": f"-Djava.security.auth.login.config={JAAS}",
    "admin.operate_token": "canary-token-of-the-operator",
}
CANARIES = (
    *("canary-sasl", "canary-tls", "canary-oauth", "canary-registry", "canary-url"),
    "canary-provider",
    *("canary-spark", "canary-jaas", "canary-token-of-the-operator"),
)
ELSEWHERE = (
    "password=canary-unknown",
    "Authorization: Bearer canary-unknown-bearer",
    "http://joe:canary-unknown@proxy:3128/",
    "-----BEGIN PRIVATE KEY-----\ncanary-unknown\n-----END PRIVATE KEY-----",
    "eyJcanary-unknown.eyJ1.c2ln",
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load({"application_id": "shop", "state_dir": tmp_path, **PLANTED}, environ={})


def test_a_line_of_the_log_shows_none_wherever_it_stands(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the text, in facts by any name, in what is nested, in bytes, and in a stack."""
    log = logging.getLogger("my")
    for console in (False, True):
        options = LogOptions.of(settings, None)
        options = LogOptions(
            application_id="shop", console=console, secrets=options.secrets, level="debug"
        )
        with bare_logging():
            output = LogOutput(options)
            try:
                for text in (*CANARIES, *ELSEWHERE):
                    log.info("logs in with %s", text)
                    facts: dict[str, Any] = {"a": [text], "b": {"c": {text: text.encode()}}}
                    log.info("x", extra={**facts, "d": RuntimeError(text), "token": text})
                    try:
                        raise ValueError(text)
                    except ValueError:
                        log.exception("cannot log in")
                log.info("%s %r", settings, settings)
            finally:
                output.close()
    printed = capsys.readouterr().err
    assert printed.count("******") > len(CANARIES)
    assert "canary" not in printed


def test_what_other_processes_print_shows_none(settings: Settings) -> None:
    """Spark's own log would show its properties."""
    options = LogOptions.of(settings, None)
    for text in (*CANARIES, *(one for one in ELSEWHERE if "\n" not in one)):
        said = f"uses {text}"
        assert "canary" not in Relay(options, "spark.stderr").line(said, "now")
        line = {"timestamp": "t", "level": "info", "logger": "o.a.s", "event": said}
        assert "canary" not in Relay(options, "spark.stdout").line(json.dumps(line), "now")


def test_the_options_that_workers_get_do_not_print_what_they_mask(settings: Settings) -> None:
    """They travel with the program, and an error may show it."""
    options = LogOptions.of(settings, None)
    assert "canary-sasl" in options.secrets
    assert "canary" not in repr(options)


def test_dead_letters_tell_of_errors_without_them() -> None:
    """The original record is kept as it is; what is added is masked."""
    for text in ELSEWHERE:
        headers = letter_headers({"text": f"ValueError: {text}", "step": "parse"})
        assert b"canary" not in b"".join(value or b"" for _, value in headers)


PROGRAM = """
from mustela import App

app = App("shop", bootstrap_servers="127.0.0.1:1")


@app.topology
def build(builder):
    builder.stream("in").to("out")
"""


def test_a_run_that_fails_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its text, nor its stack, nor the events and retries before it."""
    (tmp_path / "failing.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = (*CANARIES, *ELSEWHERE)

    def live(life: Any) -> None:
        for text in texts:
            life._standing.say(f"logs in with {text}")
            life._standing.fan.on_error(EnvironmentFault(f"no: {text}", evidence={"said": text}))
        raise EnvironmentFault(" ".join(texts), evidence={"said": "\n".join(texts)})

    monkeypatch.setattr(Life, "live", live)
    planted = [word for name, value in PLANTED.items() for word in ("--set", f"{name}={value}")]
    with bare_logging():
        assert main(["run", "failing:app", "--json", "--debug", *planted]) == 3
    printed = capsys.readouterr()
    assert "error: " in printed.err
    assert "retrying after an error" in printed.err
    assert '"event": "said"' in printed.out
    assert "canary" not in printed.out + printed.err


def test_a_program_with_handlers_of_its_own_gets_retries_without_what_looks_like_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing masks them behind Mustela."""
    from mustela.clock import ManualClock
    from mustela.runtime.logbook import Logbook

    with caplog.at_level(logging.INFO):
        for text in ELSEWHERE:
            Logbook(ManualClock(0)).on_error(EnvironmentFault(text, evidence={"said": text}))
    assert caplog.records
    assert all("canary" not in repr(record.__dict__) for record in caplog.records)


def test_the_doctor_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does `config show`, which shows every setting."""
    from mustela.cli.doctor import report
    from mustela.cli.examination import Finding, Level

    wrong = [Finding(name="x", level=Level.WRONG, found=text, mend=text) for text in ELSEWHERE]
    for as_json in (False, True):
        report(wrong, json=as_json)
    for name, value in PLANTED.items():
        section, _, rest = name.partition(".")
        monkeypatch.setenv(f"MUSTELA__{section.upper()}__{rest.replace('.', '_').upper()}", value)
    monkeypatch.setenv("MUSTELA__STATE_DIR", str(tmp_path))
    for more in ([], ["--json"]):
        assert main(["config", "show", *more]) == 0
    printed = capsys.readouterr()
    assert "kafka.sasl.password" in printed.out
    assert "canary" not in printed.out + printed.err
