"""The outcome of each kind of difference: the one table of the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mustela.errors import MustelaError
from mustela.runtime.commit.epochs import EpochsTopicGoneError
from mustela.runtime.gate import errors
from mustela.runtime.gate.differences import Difference, Kind

__all__ = ["ANSWERS", "Answer", "Verdict", "refuse", "stop_of", "told"]

_SHOWN_MAX = 5


class Verdict(Enum):
    """The outcome of a difference."""

    GO_ON = "go on"
    MIGRATE = "migrate"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a kind of difference.

    Attributes:
        verdict: What happens.
        what: The message; may name ``subject``, ``then``, ``now`` and ``app``.
        why: For a stop: the reason.
        fix: For a stop: the possible fixes.
        error: For a stop: the class of the error.
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


_DROP = "drop its rows with: mustela state drop MODULE:APP {subject}, "
_BEGIN_ANEW = "or clear everything with: mustela reset {app}"

ANSWERS: Mapping[Kind, Answer] = {
    Kind.EPOCHS_REMADE: _stops(
        EpochsTopicGoneError,
        "the epochs topic {subject} was deleted and recreated",
        why="it is the only record of the application's progress; what it holds now was copied "
        "there, and may be older than the last commit",
        fix="find out first who deleted it; then clear what is left with: mustela reset {app}",
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
        why="rows in another format would be misread",
        fix="run the version of Mustela that wrote it, " + _BEGIN_ANEW,
    ),
    Kind.EVENT_TIME: _stops(
        errors.EventTimeChangedError,
        "event_time is {now}, the state was made with {then}",
        why="windows that are closed under one setting are open under the other, and timers are "
        "due at other times",
        fix="set event_time to {then}, " + _BEGIN_ANEW,
    ),
    Kind.LIFE_UNNAMED: Answer(
        verdict=Verdict.MIGRATE,
        what="the record of an older version is converted to one that names the life of {subject}"
        " (migration name-life)",
    ),
    Kind.STATE_WITHOUT_RECORD: _stops(
        errors.StateWithoutRecordError,
        "{subject} holds state, but no epoch record says up to which epoch",
        why="the epochs topic was deleted, it lost its records, or another program, such as one of "
        "Kafka Streams, has this id",
        fix="choose another application_id; or, if it was being taken over and the seed was "
        "interrupted, seed it again; or clear what is left with: mustela reset {app}"
        " --without-record",
    ),
    Kind.GROUP_FOREIGN: _stops(
        errors.OffsetsMovedError,
        "consumer group {app} has offsets, but no epoch of {app} was ever committed",
        why="the epochs topic was deleted, another program uses this group, or a tool set its "
        "offsets; only auto_offset_reset and the epoch record decide where to start",
        fix="choose another application_id; or start at the group's offsets with: mustela offsets"
        " accept MODULE:APP; or delete the group with: mustela reset {app} --without-record",
    ),
    Kind.OFFSETS_MOVED: _stops(
        errors.OffsetsMovedError,
        "the offsets of consumer group {app} were changed",
        why="the epoch record is authoritative and the group only mirrors it: following the group "
        "would count records twice or lose them",
        fix="continue from the group's offsets with: mustela offsets accept {app}; or set the group"
        " back to the record with: mustela offsets accept {app} --record; " + _BEGIN_ANEW,
    ),
    Kind.SOURCE_RECREATED: _stops(
        errors.SourceTopicRecreatedError,
        "the source topic {subject} was deleted and recreated",
        why="the offsets of the last epoch now mean other records, and the state is based on the "
        "deleted topic",
        fix="read the new topic from its start and keep the state with: mustela offsets accept"
        " {app} --truncated; or start without state: mustela reset {app}",
    ),
    Kind.SOURCE_REPLACED: _goes_on(
        "the topic {subject}, matched by a pattern, was deleted and recreated: the new one is "
        "read from where auto_offset_reset says"
    ),
    Kind.SOURCE_LEFT: _goes_on(
        "the source topic {subject} {now}: its offsets are kept in case it comes back"
    ),
    Kind.SOURCE_RETURNED: _goes_on(
        "the source topic {subject} is read again, from where it was left"
    ),
    Kind.SOURCE_TRUNCATED: _stops(
        errors.SourceTruncatedError,
        "the source partition {subject} lost records that were read",
        why="results include the lost records; and records written in their place would be skipped "
        "up to the old offset",
        fix="continue where the log still is what was read, and keep the state, with: mustela "
        "offsets accept {app} --truncated; or start over from what the topics hold: mustela reset "
        "{app}",
    ),
    Kind.SOURCE_EXPIRED: _stops(
        errors.SourceExpiredError,
        "records of the source partition {subject} were deleted before they were read",
        why="retention, or a tool, removed them; they would be silently missing from the results",
        fix="raise the topic's retention.ms, and continue at the first record that is left with: "
        "mustela offsets accept {app} --truncated; or start over from what the topics hold: "
        "mustela reset {app}",
    ),
    Kind.STORE_NAME_TAKEN: _stops(
        errors.StoreNameTakenError,
        "store '{now}' cannot be renamed to '{subject}': a store of that name has rows",
        why="an earlier version of the program had a store of that name, and its changelog is"
        " still there",
        fix="give the store a name other than '{subject}', " + _BEGIN_ANEW,
    ),
    Kind.STORE_LAYOUT: _stops(
        errors.StoreLayoutChangedError,
        "store '{subject}' has another layout than its rows",
        why="the kind of the store, or the time spans it was made for, were changed",
        fix="give the changed store another name, change it back, " + _BEGIN_ANEW,
    ),
    Kind.STORE_MEANING: _stops(
        errors.StoreMeaningChangedError,
        "the rows of store '{subject}' mean something else in this program",
        why="its bytes would be misinterpreted, and results would be wrong",
        fix="give the changed store another name, change it back, " + _BEGIN_ANEW,
    ),
    Kind.STORE_VALUES: _stops(
        errors.StoreMeaningChangedError,
        "the values of store '{subject}' have another type in this program",
        why="its rows would be misinterpreted, and results would be wrong",
        fix="upgrade them: Materialized(version=2, upgrade=Upgrade(value=OldType, by=function)),"
        " or the next number if there already is a version; or change the type back, give the "
        "store another name, " + _BEGIN_ANEW,
    ),
    Kind.STORE_AGGREGATES: _stops(
        errors.StoreMeaningChangedError,
        "store '{subject}' holds other aggregates in this program",
        why="its rows do not have what the new aggregates would be made of, and the records that "
        "made them may be gone",
        fix="leave the aggregates of this store as they were, and put new ones into another "
        'aggregate(..., store="another-name"), which begins empty; or give the store another name, '
        "so that all of them begin empty, " + _BEGIN_ANEW,
    ),
    Kind.STORE_UPGRADED: _goes_on(
        "the store '{subject}' goes on from {then} to {now}: older rows are upgraded when they are"
        " read, and written back when they change"
    ),
    Kind.STORE_NOT_UPGRADED: _stops(
        errors.StoreNotUpgradedError,
        "rows of store '{subject}' cannot be upgraded by this program",
        why="there may be rows of the older version, and nothing says how to read them",
        fix="say how to read the existing rows, with"
        " upgrade={{OLD: Upgrade(value=OldType, by=function)}} for each older version; "
        + _DROP
        + _BEGIN_ANEW,
    ),
    Kind.STORE_VERSION_FALLEN: _stops(
        errors.StoreVersionFallenError,
        "store '{subject}' has rows of a newer version than this program",
        why="a program cannot read what a newer one wrote",
        fix="run the newer program; or undo the change with another version, the next number, "
        "whose upgrade restores the old values; " + _DROP + _BEGIN_ANEW,
    ),
    Kind.FORMAT_NOT_HELD: _stops(
        errors.FormatNotHeldError,
        "hold_format is set, and {subject} cannot be kept as the release before can read it",
        why="once this program has committed, the program that wrote it would be refused",
        fix="for a new version of rows say the way back, with upgrade=Upgrade(value=OldType,"
        " by=function, back=function); or set hold_format to false, after which there is no way"
        " back",
    ),
    Kind.STORE_WIDENED: _goes_on(
        "the store '{subject}' goes on with a change: {then} becomes {now}"
    ),
    Kind.STORE_UNCLAIMED: _goes_on(
        "no step of the program uses the store '{subject}' any more: its changelog is kept"
    ),
    Kind.STORE_RETURNED: _goes_on(
        "the store '{subject}' is back, and none of its records were read in between"
    ),
    Kind.STORE_SLEPT: _stops(
        errors.StoreSleptError,
        "the store '{subject}' had been removed from the program, and is back: {now}",
        why="the changes from these records are missing in it",
        fix="give it another name, so that it starts empty, " + _DROP + _BEGIN_ANEW,
    ),
    Kind.STORE_MOVED: _stops(
        errors.StoreMovedError,
        "the store '{subject}', which has no changelog, would start empty",
        why="it now lives together with other stores, in another place, and only a changelog could "
        "bring its rows there",
        fix="change the program back, give it another name, so that it starts empty, "
        + _BEGIN_ANEW,
    ),
    Kind.STORE_UNLOGGED: _goes_on(
        "the store '{subject}' no longer has a changelog: if its local copy is lost, it starts "
        "empty"
    ),
    Kind.STORE_DROPPED: _stops(
        errors.StoreDroppedError,
        "the store '{subject}' was dropped, and now has no changelog",
        why="local state may still have the dropped rows; only a new changelog identifies the "
        "store as a new one",
        fix="keep its changelog, give it another name, " + _BEGIN_ANEW,
    ),
    Kind.STORE_REOPENED: _goes_on(
        "the store '{subject}' accepts later records than before, with a grace of {now} instead "
        "of {then}: a window whose rows were dropped under the shorter grace starts empty if a "
        "record for it arrives"
    ),
    Kind.CHANGELOG_SHARED: _stops(
        errors.ChangelogSharedError,
        "the changelog of store '{subject}' has the same name as one of another application",
        why="a changelog is named by application and store; both would write to one topic, and a"
        " restore of either would bring rows of the other",
        fix="give the store a name other than '{subject}', or the application an application_id "
        "other than '{app}'",
    ),
    Kind.CHANGELOG_INCOMPLETE: _stops(
        errors.ChangelogIncompleteError,
        "the store '{subject}' now has a changelog, but was written without one",
        why="the changelog would lack those rows, and a restore would lose them",
        fix="set logged=False again, give it another name, so that it starts empty, "
        + _DROP
        + _BEGIN_ANEW,
    ),
    Kind.CHANGELOG_RECREATED: _stops(
        errors.ChangelogRecreatedError,
        "the changelog of store '{subject}' was deleted",
        why="the rows written to it are not in the topic that exists now, so a restore would lose "
        "them",
        fix=_DROP + "so that it starts empty, or start over from what the source topics hold:"
        " mustela reset {app}",
    ),
    Kind.CHANGELOG_TRUNCATED: _stops(
        errors.ChangelogTruncatedError,
        "the changelog of store '{subject}' ends before what was written to it",
        why="the log lost rows of the store, so a restore would lose them",
        fix=_DROP + "so that it starts empty, or start over from what the source topics hold:"
        " mustela reset {app}",
    ),
}


def told(difference: Difference, application_id: str) -> str:
    """Return the message for a difference."""
    return _filled(ANSWERS[difference.kind].what, difference, application_id)


def stop_of(found: Iterable[Difference], application_id: str) -> MustelaError | None:
    """Return the error of the first difference that stops the application, or None.

    It lists other differences of the same kind as evidence.
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


def refuse(found: Iterable[Difference], application_id: str) -> None:
    """Raise if a difference stops the application.

    Raises:
        MustelaError: For the first difference that is a stop.
    """
    error = stop_of(found, application_id)
    if error is not None:
        raise error


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
