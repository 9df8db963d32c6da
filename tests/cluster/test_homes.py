"""Key groups at home: what the loss of an executor costs, and what one gets that comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from tests.cluster.network import entered
from tests.cluster.rig import Cluster, Host
from tests.cluster.test_state import home_on
from tests.cluster.word_count import Lines, counting, marks
from tests.patience import looks

pytestmark = marks

GROUPS = 32
EXECUTOR = "CoarseGrainedExecutorBackend"
LISTENS = "127.0.0.1:9100"
TOKEN = "a-token-that-only-this-test-has"
SET = {
    "admin.enabled": "true",
    "admin.listen": LISTENS,
    "admin.read_token": TOKEN,
    "key_groups": str(GROUPS),
}
LAG = "mustela_standby_lag_records"


@contextmanager
def measured(cluster: Cluster) -> Generator[Lines]:
    words = [word for name, text in SET.items() for word in ("--set", f"{name}={text}")]
    with counting(cluster, *words) as lines:
        yield lines


def lacking(lines: Lines) -> float | None:
    """Return how many records the copies on second hosts lack, as the program's metrics say."""
    asked = Request(f"http://{LISTENS}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with entered(lines.program.host.pid), urlopen(asked, timeout=60) as page:
        told = page.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in told if line.startswith(LAG)), None)


def said(lines: Lines, text: str) -> list[str]:
    return [one["says"] for one in lines.program.events("said") if text in one["says"]]


def counted(lines: Lines, since: int = 0) -> Counter[str]:
    """Return the sums of what epochs have counted, without so many of the first ones."""
    counts = Counter[str]()
    for epoch in lines.program.events("epoch")[since:]:
        counts.update(epoch["counters"])
    return counts


def copies_on(host: Host) -> set[str]:
    """Return the key groups that a host has on its disk; locks lie beside them."""
    return {f"{path.parent.name}/{path.name}" for path in home_on(host).glob("*/0*/")}


def more_epochs(lines: Lines) -> None:
    for _ in range(2):
        lines.send(100)
        lines.program.until_epochs(1)


def until_copied(lines: Lines, *hosts: Host) -> None:
    """Have words counted, and wait, without any more of them, until copies lack nothing."""
    lines.send(1000)
    lines.until_counted()

    def copied() -> bool:
        # Without a second home they have half of the key groups in common at most: those that moved
        # when the later one came. Nobody copies key groups without a word.
        both = set[str].intersection(*map(copies_on, hosts))
        # What an epoch wrote is seen before its metrics are: those of the one before lack nothing.
        is_told = counted(lines)["records:lines"] == lines.sent
        return is_told and len(both) > GROUPS // 2 and lacking(lines) == 0.0

    assert any(looks(copied)), lines.program.log()


def until_it_is_back(lines: Lines) -> None:
    """Wait until a host that came has its share of the key groups."""

    def is_back() -> bool:
        lines.send(50)
        return len(said(lines, "had caught up")) >= len(said(lines, "lost its"))

    assert any(looks(is_back)), lines.program.log()


def test_a_lost_executor_restores_nothing_and_gets_its_share_when_it_is_back(
    cluster: Cluster,
) -> None:
    """Each host has all key groups: half of them at home, and the others as copies.

    Who takes over reads what came since the last errands at most, and nothing that is older.
    """
    a, b = cluster.add_workers("a", "b")
    with measured(cluster) as lines:
        until_copied(lines, a, b)
        lines.send(2000)
        lines.program.until_epochs(1)
        assert a.kill_program(EXECUTOR) == 1
        more_epochs(lines)
        (lost,) = said(lines, "lost its")
        assert "16 of 32 key groups have another home, none of them" in lost
        assert len(lines.program.events("error")) <= 1
        until_it_is_back(lines)
        until_copied(lines, a, b)
        before = counted(lines)["groups_caught_up"]
        b.partition()
        more_epochs(lines)
        assert len(said(lines, "none of them")) == 2, said(lines, "lost its")
        assert counted(lines)["groups_caught_up"] == before  # it was current, and nothing came
        assert counted(lines)["groups_restored"] == 0


def test_a_host_that_comes_back_without_its_disk_reads_before_it_gets_anything(
    cluster: Cluster,
) -> None:
    """As a pod that was replaced: what the driver knew of its disk is nothing any more."""
    a, b = cluster.add_workers("a", "b")
    with measured(cluster) as lines:
        until_copied(lines, a, b)
        b.reboot(disk_kept=False)
        more_epochs(lines)
        until_it_is_back(lines)
        more_epochs(lines)
        assert counted(lines)["groups_restored"] == 0
        assert copies_on(b)
