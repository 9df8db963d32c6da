"""./dev scan: what could not be looked up is never passed off as clean."""

from __future__ import annotations

import json

import pytest

from tests.scan.audit import read_audit
from tests.scan.licences import Licence, installed

CLEAN = {"name": "idna", "version": "3.20", "vulns": []}
BAD = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"], "aliases": []}],
}
PASSED_OVER = {"name": "alabaster", "skip_reason": "Dependency not found: alabaster (1.0.0)"}


def test_a_vulnerability_is_named_with_the_version_that_mends_it() -> None:
    found = read_audit(json.dumps({"dependencies": [CLEAN, BAD]}), "")
    assert found.asked == 2
    assert found.found == ("jinja2 2.4.1: PYSEC-2014-8, mended in 2.7.2",)
    assert not found.unknown


def test_a_package_that_was_passed_over_was_not_looked_up() -> None:
    """pip-audit says that it found none, and ends with 0."""
    found = read_audit(json.dumps({"dependencies": [CLEAN, PASSED_OVER]}), "No known")
    assert found.asked == 1
    assert found.unknown == ("Dependency not found: alabaster (1.0.0)",)


@pytest.mark.parametrize("printed", ["", "Traceback", "{}", "[]"])
def test_a_database_that_does_not_answer_says_nothing_of_any(printed: str) -> None:
    found = read_audit(printed, "Traceback\nConnectionError: no such host\n")
    assert found.asked == 0
    assert found.unknown == ("ConnectionError: no such host",)


def test_no_licence_of_what_users_install_binds_them() -> None:
    """Those of everything that the two distributions need."""
    known = {licence.name: licence for licence in installed()}
    assert {"mustela", "mustela-dev", "pyspark", "confluent-kafka", "fastavro"} <= set(known)
    assert "pytest" not in known
    assert not [licence for licence in known.values() if licence.is_refused]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("Apache-2.0", False),
        ("Apache-2.0 OR GPL-2.0-only", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("GPL-3.0-or-later", True),
        ("AGPL-3.0-only", True),
        ("BUSL-1.1", True),
        ("", True),
    ],
)
def test_licences_that_bind_are_refused(text: str, refused: bool) -> None:
    assert Licence("a", "1", text).is_refused is refused
