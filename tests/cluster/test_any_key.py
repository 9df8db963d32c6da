"""Any key of any store, read on hosts that are not at home for it."""

from __future__ import annotations

from tests.cluster.program import Program
from tests.cluster.rig import Cluster
from tests.cluster.word_count import Lines, marks
from tests.patience import looks

pytestmark = marks

FILES = {
    "looking.py": """
from mustela import App, StreamsBuilder, Stores
from mustela.processors import ContextualProcessor

app = App(application_id="words")

class Look(ContextualProcessor):
    def process(self, record):
        found = self.context.any_key_store("counts").get_many(record.value.split())
        told = " ".join(str(row.value if row else 0) for row in found)
        self.context.forward(record.with_value(told))

class LookInLane(Look):
    @staticmethod
    def stores():
        own = Stores.persistent_key_value_store("own")
        return [Stores.key_value_store_builder(own, key=str, value=str)]

@app.topology
def build(builder: StreamsBuilder) -> None:
    words = builder.stream("lines", key=str, value=str).flat_map_values(str.split, name="split")
    counted = words.group_by(lambda _key, word: word, key=str, name="by-word").count(store="counts")
    counted.to_stream().to("counts", key=str, value=int)
    asks = builder.stream("asks", key=str, value=str)
    asks.process(Look, reads=["counts"], name="free").to("free", key=str, value=str)
    asks.process(LookInLane, reads=["counts"], name="kept").to("kept", key=str, value=str)
""",
}
TOPICS = {"lines": 4, "asks": 4, "counts": 2, "free": 1, "kept": 1}
ASKS = 24


def ask(lines: Lines, times: int) -> None:
    """Ask on every lane for all counts while nothing is counted; each answer is all of them."""
    program, words = lines.program, sorted(lines.expected)
    program.send("asks", [(f"{times}-{n}", " ".join(words)) for n in range(ASKS)])
    for topic in ("free", "kept"):
        there = looks(lambda topic=topic: len(program.rows(topic)) >= times * ASKS)
        assert any(there), program.log()
        right = " ".join(str(lines.expected[word]) for word in words)
        answers = {key: told for key, told in program.rows(topic) if key.startswith(f"{times}-")}
        assert answers == {f"{times}-{n}": right for n in range(ASKS)}


def test_any_key_is_read_on_every_host_and_after_the_loss_of_one(cluster: Cluster) -> None:
    """A host reads what it has no copy of, or an old one, from the changelogs first."""
    a, _ = cluster.add_workers("a", "b")
    program = Program(cluster, cluster.add("driver"), FILES, TOPICS)
    lines = Lines(program)
    with program.running("looking:app", "--master", cluster.master):
        program.until_running()
        for times in (1, 2, 3):
            lines.send(300)
            if times == 3:
                a.kill()
            lines.until_counted()
            ask(lines, times)
