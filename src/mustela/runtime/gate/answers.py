"""What each kind of difference leads to: the one table of the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mustela.errors import MustelaError
from mustela.runtime.commit.epochs import EpochsTopicGoneError
from mustela.runtime.gate import errors
from mustela.runtime.gate.differences import Difference, Kind

__all__ = ["ANSWERS", "Answer", "Verdict", "stop_of", "told"]

_SHOWN_MAX = 5


class Verdict(Enum):
    """What happens where there is such a difference."""

    GO_ON = "go on"
    MIGRATE = "migrate"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a kind of difference.

    Attributes:
        verdict: What happens.
        what: What is said; may name ``subject``, ``then``, ``now`` and ``app``.
        why: For a stop: why nothing may be written.
        fix: For a stop: the ways on.
        error: For a stop: the error.
    """

    verdict: Verdict
    what: str
    why: str = ""
    fix: str = ""
    error: type[MustelaError] = MustelaError


def _goes_on(what: str) -> Answer:
    return Answer(verdict=Verdict.GO_ON, what=what)


def _stops(error: type[MustelaError], what: str, *, why: str, fix: str) -> Answer:
    return Answer(verdict=Verdict.STOP, what=what, why=why, fix=fix, error=error)


_DROP = "drop what it has with: mustela state drop MODULE:APP {subject}, "
_BEGIN_ANEW = "or clear everything with: mustela reset {app}"

ANSWERS: Mapping[Kind, Answer] = {
    Kind.EPOCHS_REMADE: _stops(
        EpochsTopicGoneError,
        "the epochs topic {subject} was deleted and made again",
        why="it alone knows how far the application has come; what is in it now was copied there,"
        " and may be older than what was committed last",
        fix="clear what is left with: mustela reset {app}; find out who deleted it first",
    ),
    Kind.KEY_GROUPS: _stops(
        errors.KeyGroupsChangedError,
        "key_groups is {now}, the state was made with {then}",
        why="the number of key groups decides where each key's state is",
        fix="set key_groups to {then}, " + _BEGIN_ANEW,
    ),
    Kind.STATE_FORMAT: _stops(
        errors.StateFormatError,
        "the state is of format {then}, this version reads {now}",
        why="rows of another format would be read wrongly",
        fix="run the version of Mustela that wrote it, " + _BEGIN_ANEW,
    ),
    Kind.EVENT_TIME: _stops(
        errors.EventTimeChangedError,
        "event_time is {now}, the state was made with {then}",
        why="windows that one of them has closed are open by the other, and timers are due at"
        " other times",
        fix="set event_time to {then}, " + _BEGIN_ANEW,
    ),
    Kind.LIFE_UNNAMED: Answer(
        verdict=Verdict.MIGRATE,
        what="the record of an older version becomes one that names the life of {subject}"
        " (migration name-life)",
    ),
    Kind.STATE_WITHOUT_RECORD: _stops(
        errors.StateWithoutRecordError,
        "{subject} holds state, but no epoch record tells how far it goes",
        why="the epochs topic was deleted, or it lost its records",
        fix="clear what is left with: mustela reset {app}",
    ),
    Kind.GROUP_FOREIGN: _stops(
        errors.OffsetsMovedError,
        "consumer group {app} has offsets, but no epoch of {app} was ever committed",
        why="the epochs topic was deleted, another program uses this group, or a tool set its"
        " offsets; where to begin is for auto_offset_reset and the epoch record to say",
        fix="choose another application_id; or begin at the group's offsets with: mustela offsets"
        " accept MODULE:APP; or delete the group with: mustela reset {app}",
    ),
    Kind.OFFSETS_MOVED: _stops(
        errors.OffsetsMovedError,
        "the offsets of consumer group {app} were changed",
        why="the epoch record is the truth, the group only mirrors it: to follow the group alone"
        " would count records twice or lose them",
        fix="go on from the group's offsets with: mustela offsets accept {app}; or set the group"
        " back to the record with: mustela offsets accept {app} --record; " + _BEGIN_ANEW,
    ),
    Kind.SOURCE_RECREATED: _stops(
        errors.SourceTopicRecreatedError,
        "the source topic {subject} was deleted and made anew",
        why="the offsets of the last epoch mean other records now, and the state holds what the"
        " deleted topic held",
        fix="read the new topic from its start and keep the state with: mustela offsets accept"
        " {app} --truncated; or begin without state: mustela reset {app}",
    ),
    Kind.SOURCE_REPLACED: _goes_on(
        "the topic {subject}, which a pattern found, was deleted and made anew: the new one is read"
        " as auto_offset_reset says"
    ),
    Kind.SOURCE_LEFT: _goes_on(
        "the source topic {subject} {now}: its offsets are kept, so that it can come back"
    ),
    Kind.SOURCE_RETURNED: _goes_on(
        "the source topic {subject} is read again, from where it was left"
    ),
    Kind.SOURCE_TRUNCATED: _stops(
        errors.SourceTruncatedError,
        "the source partition {subject} lost records that were read",
        why="results hold what the lost records said; and what was written in their place would"
        " be skipped up to the old offset",
        fix="go on where the log is still what was read, and keep the state, with: mustela offsets"
        " accept {app} --truncated; or begin anew, from what the topics hold: mustela reset {app}",
    ),
    Kind.SOURCE_EXPIRED: _stops(
        errors.SourceExpiredError,
        "records of the source partition {subject} were deleted before they were read",
        why="retention, or a tool, removed them; results would lack them without a word",
        fix="raise retention.ms of the topic, and go on at the first record that is left with:"
        " mustela offsets accept {app} --truncated; or begin anew, from what the topics hold:"
        " mustela reset {app}",
    ),
    Kind.STORE_NAME_TAKEN: _stops(
        errors.StoreNameTakenError,
        "store '{now}' cannot be renamed to '{subject}': a store of that name has rows",
        why="an earlier version of the program had a store of that name, and its changelog is"
        " still there",
        fix="give the store another name than '{subject}', " + _BEGIN_ANEW,
    ),
    Kind.STORE_LAYOUT: _stops(
        errors.StoreLayoutChangedError,
        "store '{subject}' is laid out in another way than its rows",
        why="the kind of the store, or the times that it is made for, were changed",
        fix="give the changed store another name, change it back, " + _BEGIN_ANEW,
    ),
    Kind.STORE_MEANING: _stops(
        errors.StoreMeaningChangedError,
        "the rows of store '{subject}' mean something else in this program",
        why="its bytes would be read as what they are not, and results would be wrong",
        fix="give the changed store another name, change it back, " + _BEGIN_ANEW,
    ),
    Kind.STORE_VALUES: _stops(
        errors.StoreMeaningChangedError,
        "the values of store '{subject}' are of another type in this program",
        why="its rows would be read as what they are not, and results would be wrong",
        fix="upgrade them: Materialized(version=2, upgrade=Upgrade(value=OldType, by=function)),"
        " with the next number where there is one; or change the type back, give the store another"
        " name, " + _BEGIN_ANEW,
    ),
    Kind.STORE_UPGRADED: _goes_on(
        "the store '{subject}' goes on from {then} to {now}: older rows are upgraded when they are"
        " read, and written back when they change"
    ),
    Kind.STORE_NOT_UPGRADED: _stops(
        errors.StoreNotUpgradedError,
        "rows of store '{subject}' cannot be upgraded by this program",
        why="there may be rows of the older version, and nothing says how to read them",
        fix="say how the rows that are there are read, with"
        " upgrade={{OLD: Upgrade(value=OldType, by=function)}} for each older version; "
        + _DROP
        + _BEGIN_ANEW,
    ),
    Kind.STORE_VERSION_FALLEN: _stops(
        errors.StoreVersionFallenError,
        "store '{subject}' has rows of a later version than this program",
        why="a program cannot read what a later one wrote",
        fix="run the later program; or take the change back with a version of its own, the next"
        " one, whose upgrade makes the old values again; " + _DROP + _BEGIN_ANEW,
    ),
    Kind.STORE_WIDENED: _goes_on(
        "the store '{subject}' goes on in another way: {then} is {now} from now on"
    ),
    Kind.STORE_UNCLAIMED: _goes_on(
        "no step of the program has the store '{subject}' any more: its changelog is kept"
    ),
    Kind.STORE_RETURNED: _goes_on(
        "the store '{subject}' is back, and none of its records was read meanwhile"
    ),
    Kind.STORE_SLEPT: _stops(
        errors.StoreSleptError,
        "the store '{subject}' was left out of the program, and is back: {now}",
        why="what they would have changed in it is missing",
        fix="give it another name, so that it begins empty, " + _DROP + _BEGIN_ANEW,
    ),
    Kind.STORE_MOVED: _stops(
        errors.StoreMovedError,
        "the store '{subject}', which has no changelog, would begin empty",
        why="other stores live beside it now, so it lives at another place, and only a changelog"
        " could bring its rows there",
        fix="change the program back, give it another name, so that it begins empty, "
        + _BEGIN_ANEW,
    ),
    Kind.STORE_UNLOGGED: _goes_on(
        "the store '{subject}' has no changelog any more: if its local copy is lost, it begins"
        " empty"
    ),
    Kind.STORE_DROPPED: _stops(
        errors.StoreDroppedError,
        "the store '{subject}' was dropped, and is to do without a changelog",
        why="local state may still have the rows that were dropped; by its new changelog alone a"
        " store is known to be another",
        fix="leave its changelog on, give it another name, " + _BEGIN_ANEW,
    ),
    Kind.STORE_REOPENED: _goes_on(
        "the store '{subject}' takes later records than before, by a grace of {now} instead of"
        " {then}: a window whose rows were dropped under the shorter one begins empty, if a record"
        " for it comes"
    ),
    Kind.CHANGELOG_SHARED: _stops(
        errors.ChangelogSharedError,
        "the changelog of store '{subject}' has the name of another application's",
        why="a changelog is named by application and store; both would write to one topic, and a"
        " restore of either would bring rows of the other",
        fix="give the store another name than '{subject}', or the application another"
        " application_id than '{app}'",
    ),
    Kind.CHANGELOG_INCOMPLETE: _stops(
        errors.ChangelogIncompleteError,
        "the store '{subject}' is to have a changelog, and was written without one",
        why="the changelog would lack those rows, and a restore would lose them",
        fix="set logged=False again, give it another name, so that it begins empty, "
        + _DROP
        + _BEGIN_ANEW,
    ),
    Kind.CHANGELOG_RECREATED: _stops(
        errors.ChangelogRecreatedError,
        "the changelog of store '{subject}' was deleted",
        why="what was written to it is not in the topic that is there now, so that a restore"
        " would lose it",
        fix=_DROP + "so that it begins empty, or begin anew, from what the source topics hold:"
        " mustela reset {app}",
    ),
    Kind.CHANGELOG_TRUNCATED: _stops(
        errors.ChangelogTruncatedError,
        "the changelog of store '{subject}' ends before what was written to it",
        why="the log lost rows of the store, so that a restore would lose them",
        fix=_DROP + "so that it begins empty, or begin anew, from what the source topics hold:"
        " mustela reset {app}",
    ),
}


def told(difference: Difference, application_id: str) -> str:
    """Return what is said of a difference."""
    return _filled(ANSWERS[difference.kind].what, difference, application_id)


def stop_of(found: Iterable[Difference], application_id: str) -> MustelaError | None:
    """Return the error of the first difference that stops the application, None if none does.

    Differences of the same kind are in it too, as evidence.
    """
    differences = list(found)
    first = next((d for d in differences if ANSWERS[d.kind].verdict is Verdict.STOP), None)
    if first is None:
        return None
    same = [difference for difference in differences if difference.kind is first.kind]
    answer = ANSWERS[first.kind]
    return answer.error(
        _filled(answer.what, first, application_id),
        evidence=_evidence(same),
        why=answer.why,
        fix=_filled(answer.fix, first, application_id),
        fields=_fields(same),
    )


def _evidence(same: list[Difference]) -> dict[str, object]:
    shown: dict[str, object] = {}
    for difference in same[:_SHOWN_MAX]:
        parts = [text for text in (difference.then, difference.now) if text]
        if parts:
            shown[difference.subject] = ", now ".join(parts)
    if len(same) > _SHOWN_MAX:
        shown["more"] = f"{len(same) - _SHOWN_MAX} of the same kind"
    return shown


def _fields(same: list[Difference]) -> dict[str, Any]:
    subjects = [difference.subject for difference in same]
    fields: dict[str, Any] = {"subjects": subjects}
    if same[0].kind.value.startswith(("store-", "changelog-")):
        fields["store"] = subjects[0]
    for difference in same:
        for name, value in difference.fields.items():
            if isinstance(value, dict):
                fields.setdefault(name, {}).update(value)
            else:
                fields.setdefault(name, value)
    return fields


def _filled(text: str, difference: Difference, application_id: str) -> str:
    return text.format(
        subject=difference.subject,
        then=difference.then,
        now=difference.now,
        app=application_id,
    )
