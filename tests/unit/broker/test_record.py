"""The file that says which process serves a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mustela_dev.broker.child import ProcessMark
from mustela_dev.broker.record import (
    BrokerDirectoryError,
    BrokerRecord,
    make_private,
    read_record,
    write_record,
)

MARK = ProcessMark(pid=1, started=2, boot="3")


@pytest.mark.parametrize("mark", [MARK, None])
def test_a_record_is_read_as_it_was_written(tmp_path: Path, mark: ProcessMark | None) -> None:
    """With and without a process; only its owner can read it."""
    record = BrokerRecord(cluster_id="c", port=1, controller_port=2, mark=mark)
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    assert (tmp_path / "broker.json").stat().st_mode & 0o077 == 0
    assert os.listdir(tmp_path) == ["broker.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "3", '{"format": 2}', '{"format": 1, "process": 7}']
)
def test_a_record_that_cannot_be_read_is_no_record(tmp_path: Path, text: str) -> None:
    """It only remembers a port and a process: the data says the rest."""
    assert read_record(tmp_path) is None
    (tmp_path / "broker.json").write_text(text)
    assert read_record(tmp_path) is None


def test_a_data_directory_is_private(tmp_path: Path) -> None:
    """What topics hold is nobody else's business."""
    make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


def test_a_data_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """It names the directory."""
    (tmp_path / "file").touch()
    with pytest.raises(BrokerDirectoryError, match="file/data"):
        make_private(tmp_path / "file" / "data")
