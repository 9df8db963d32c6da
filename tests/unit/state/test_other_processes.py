"""One process writes key groups, another one reads them, and sees the end of the epoch before."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.registry import EnvironmentRegistry

pytestmark = pytest.mark.slow

GROUPS = 4
KEYS = [f"k{number:03d}".encode() for number in range(200)]
EPOCHS = 60
DEADLINE_S = 60


def spec_of(group: int) -> EnvironmentSpec:
    stores = (StoreSpec(name="s", kind="key_value", logged=False),)
    return EnvironmentSpec(
        application_id="app", stage="s", group=group, groups=GROUPS, stores=stores
    )


def value_of(epoch: int) -> bytes:
    return epoch.to_bytes(8, "big")


def looks_at_all(registry: EnvironmentRegistry, token: Token | None) -> Iterator[str | None]:
    """Read each key group as of a token; yield what is wrong with it, or None."""
    expected = [] if token is None else [(key, value_of(token.epoch)) for key in KEYS]
    for group in range(GROUPS):
        snapshot = registry.get(spec_of(group)).snapshot(Committed(token=token))
        one_by_one = zip(KEYS, snapshot.getmulti("s", KEYS), strict=True)
        found = [row for row in one_by_one if row[1] is not None]
        in_order = list(snapshot.range("s", None, None))
        snapshot.close()
        right = found == in_order == expected
        yield None if right else f"{token}, key group {group}: {found[:2]} {in_order[:2]}"


def read_until_told(root: str, pipe: Connection) -> None:
    """Read all key groups again and again while their owner writes the next epoch."""
    registry = EnvironmentRegistry(Path(root))
    looks = 0
    while (told := pipe.recv()) != "the end":
        is_first, is_written = True, False
        while not is_written:
            is_written = not is_first and pipe.poll()  # one more look behind the write
            for wrong in looks_at_all(registry, told):
                looks += 1
                if wrong is not None:
                    pipe.send(wrong)
                    return
            if is_first:
                pipe.send("reading")
                is_first = False
        pipe.recv()
        pipe.send("has read")
    pipe.send(looks)


def test_a_reader_in_another_process_sees_the_committed_state_while_its_owner_folds(
    tmp_path: Path,
) -> None:
    """Before the owner writes it is base and pending, behind that the base alone.

    Some epochs are run twice, some are folded before the next one, and now and then the files are
    written anew.
    """
    context = multiprocessing.get_context("spawn")
    pipe, other_end = context.Pipe()
    root = tmp_path / "state"
    reader = context.Process(target=read_until_told, args=(str(root), other_end))
    reader.start()
    registry = EnvironmentRegistry(root)
    owned = [registry.get(spec_of(group)) for group in range(GROUPS)]
    token: Token | None = None
    try:
        for epoch in range(1, EPOCHS + 1):
            pipe.send(token)
            assert heard(pipe) == "reading"
            rows = [(key, value_of(epoch)) for key in KEYS]
            attempts = 2 if epoch % 10 == 0 else 1
            for attempt in range(attempts):
                for environment in owned:
                    run = Token(1, epoch, attempt)
                    environment.write_pending(run, Committed(token=token), {"s": rows})
            pipe.send("written")
            assert heard(pipe) == "has read"
            token = Token(1, epoch, attempts - 1)
            for environment in owned if epoch % 7 == 0 else ():
                environment.fold(Committed(token=token))
            for environment in owned if epoch % 13 == 0 else ():
                environment.compact()
        pipe.send("the end")
        assert heard(pipe) >= 2 * GROUPS * EPOCHS  # pyright: ignore[reportOperatorIssue]
    finally:
        registry.close_all(clean=False)
        reader.kill()
        reader.join(DEADLINE_S)


def heard(pipe: Connection) -> object:
    assert pipe.poll(DEADLINE_S), "the other process says nothing"
    return pipe.recv()
