"""The demonstration's input: real files, unique ids, and the partitions that Kafka chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela_dev.demo.corpus import InputMissingError, partition_of, read_corpus

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("import os\n\nprint(1)\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.py").write_bytes(b"\xff = 1\r\nlast line")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "c.py").write_text("foreign\n")
    (tmp_path / "notes.txt").write_text("no source\n")
    return tmp_path


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_a_key_goes_where_kafka_puts_it(key: str, hashed: int) -> None:
    """The hashes are those of Kafka's own tests of its partitioner."""
    for partitions in (1, 3, 4, 1_000, 1 << 30):
        assert partition_of(key.encode(), partitions) == (hashed & 0x7FFFFFFF) % partitions


def test_each_line_of_each_file_is_a_record(files: Path) -> None:
    """Keys are file names, empty lines count, installed packages do not."""
    corpus = read_corpus(5, partitions=3, root=files)
    assert [(line.key, line.text) for line in corpus.lines] == [
        ("a.py", "import os"),
        ("a.py", ""),
        ("a.py", "print(1)"),
        ("deep/b.py", "\ufffd = 1"),
        ("deep/b.py", "last line"),
    ]
    assert [line.number for line in corpus.lines] == [0, 1, 2, 3, 4]


def test_files_are_repeated_under_other_keys(files: Path) -> None:
    """As many lines as asked for, each with an id of its own."""
    corpus = read_corpus(12, partitions=3, root=files)
    assert len(corpus.lines) == 12
    assert {line.key for line in corpus.lines[5:10]} == {"a.py#2", "deep/b.py#2"}
    assert corpus.lines[11].key == "a.py#3"
    assert len({line.number for line in corpus.lines}) == 12


def test_an_offset_names_a_line(files: Path) -> None:
    """Lines of one partition are in the order of the input, and their words add up."""
    corpus = read_corpus(12, partitions=2, root=files)
    assert sum(corpus.ends().values()) == 12
    assert corpus.words == sum(corpus.counts().values()) == corpus.words_until(corpus.ends())
    assert corpus.words_until({0: 0, 1: 0}) == 0
    for lines in corpus.partitions:
        assert [line.number for line in lines] == sorted(line.number for line in lines)
    middle = {part: end // 2 for part, end in corpus.ends().items()}
    first, second = corpus.between({}, middle), corpus.between(middle, corpus.ends())
    assert {line.number for line in (*first, *second)} == set(range(12))


def test_the_standard_library_is_there() -> None:
    """The Python that runs the tests has text enough."""
    corpus = read_corpus(1_000, partitions=4)
    assert len(corpus.lines) == 1_000
    assert corpus.words > 1_000


def test_a_python_without_sources_is_named(tmp_path: Path) -> None:
    """An error says where nothing was found."""
    with pytest.raises(InputMissingError, match=str(tmp_path)):
        read_corpus(10, partitions=1, root=tmp_path)
