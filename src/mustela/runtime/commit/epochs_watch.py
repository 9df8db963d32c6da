"""Checks that the epochs topic is still the one in which the last epoch was committed."""

from __future__ import annotations

from mustela.connectors.kafka.admin import TopicDescription
from mustela.connectors.kafka.metadata import AGREED_LAG_S
from mustela.runtime.commit.committed import CommittedState
from mustela.runtime.commit.epochs import EpochReader, refuse_remade
from mustela.runtime.ports import World
from mustela.runtime.record.epoch_delta import token_of
from mustela.runtime.record.epoch_record import epochs_topic

__all__ = ["EpochsWatch"]

_LOOKS_MAX = 3
_PAUSE_S = 0.1


class EpochsWatch:
    """Notices by its id that the epochs topic was deleted and recreated.

    An answer may come from a broker with old metadata, and so may the one that the known id came
    from. So the topic is read again, and the one that holds the last committed epoch is the right
    one.

    Args:
        application_id: The application.
        world: Kafka, and a clock to wait with.

    Attributes:
        topic: The epochs topic.
    """

    def __init__(self, application_id: str, world: World) -> None:
        self._application_id = application_id
        self._cluster = world.cluster
        self._clock = world.clock
        self._reader = EpochReader(world.epochs, application_id)
        self.topic = epochs_topic(application_id)

    def see(self, state: CommittedState, found: TopicDescription | None) -> None:
        """Compare the topic as found with what is known about it.

        A missing topic is not judged here: see `refuse_gone`. A first run learns the id when it has
        committed its claim: see `claimed`.

        Raises:
            EpochsTopicGoneError: If it is a different topic, which lacks the last epoch.
            EnvironmentFault: If no broker answers.
        """
        if found is None or state.epochs_id in {"", found.topic_id}:
            return
        committed = state.incarnation, state.epoch, state.attempt
        for _ in range(_LOOKS_MAX):
            self._clock.sleep(AGREED_LAG_S)
            found = self._cluster.describe([self.topic]).get(self.topic)
            if found is None or found.topic_id == state.epochs_id:
                return
            row = self._reader.newest()
            token = token_of(row) if row is not None else (0, 0, 0)
            if token == committed:
                state.epochs_id = found.topic_id
            if token >= committed:  # fencing reports a later one
                return
        refuse_remade(self._application_id, f"id {state.epochs_id}", f"id {found.topic_id}")

    def learn(self, state: CommittedState, found: TopicDescription | None) -> None:
        """Learn the id of the topic that holds the last epoch, if none is known.

        The answer with the id may be out of date, and about a topic that a reset has deleted: `see`
        compares it again before each commit that names it.
        """
        if found is None or state.epochs_id:
            return
        row = self._reader.newest()
        if row is not None and token_of(row) == (state.incarnation, state.epoch, state.attempt):
            state.epochs_id = found.topic_id

    def claimed(self, state: CommittedState) -> None:
        """Learn the id when a first run has just committed its claim: see `learn`.

        A commit returns before its rows can be read. If that takes longer than the reads here, the
        id is learned before the next commit.
        """
        found = None if state.epochs_id else self._cluster.describe([self.topic]).get(self.topic)
        for _ in range(0 if found is None else _LOOKS_MAX):
            self.learn(state, found)
            if state.epochs_id:
                return
            self._clock.sleep(_PAUSE_S)
