"""What can be wrong with a topology: found when it is written, before anything runs."""

from __future__ import annotations

from mustela.errors import UsageError

__all__ = [
    "BadCallError",
    "BadNameError",
    "BadOptionError",
    "ContextNotKeptError",
    "DuplicateNameError",
    "DuplicateStoreError",
    "FunctionError",
    "HandlerError",
    "InitializerError",
    "JoinKeysError",
    "MissingSerdeError",
    "NoSuchNameError",
    "NoSuchStepError",
    "NotWindowedError",
    "OptionConflictError",
    "OtherBuilderError",
    "ProcessorError",
    "RetentionError",
    "SharedStoreError",
    "SourceConflictError",
    "SplitEndedError",
    "StoreAccessError",
    "StorePathError",
    "StreamAndTableError",
    "SubtractorError",
    "SuppressVersionedError",
    "TopologyError",
    "UnfinishedSplitError",
    "UnknownChildError",
    "UnknownStepError",
    "UnknownStoreError",
]


class TopologyError(UsageError):
    """A topology cannot be built as it was written."""

    code = "TOPOLOGY"


class BadCallError(TopologyError, TypeError):
    """A method or an option is called with arguments that it does not take."""

    code = "TOPOLOGY_BAD_CALL"


class BadNameError(TopologyError):
    """A name of a step, a store or a topic breaks Kafka's rule for names."""

    code = "TOPOLOGY_BAD_NAME"


class DuplicateNameError(TopologyError):
    """Two steps have the same name."""

    code = "TOPOLOGY_DUPLICATE_NAME"


class DuplicateStoreError(TopologyError):
    """Two steps have a store of the same name."""

    code = "TOPOLOGY_DUPLICATE_STORE"


class FunctionError(TopologyError):
    """A function argument cannot be called, or not with the arguments it will get."""

    code = "TOPOLOGY_FUNCTION"


class HandlerError(TopologyError):
    """An object is given as a handler of failed records, but cannot be one."""

    code = "TOPOLOGY_HANDLER"


class InitializerError(FunctionError):
    """An initializer is a value instead of a function that returns one."""

    code = "TOPOLOGY_INITIALIZER"


class SubtractorError(FunctionError):
    """A regrouped table is aggregated without a function that subtracts old values."""

    code = "TOPOLOGY_SUBTRACTOR"


class BadOptionError(TopologyError):
    """An option has a value that it cannot have."""

    code = "TOPOLOGY_BAD_OPTION"


class OptionConflictError(TopologyError):
    """An option is given twice and the two differ."""

    code = "TOPOLOGY_OPTION_CONFLICT"


class MissingSerdeError(TopologyError):
    """Records must be written, but no serde is known for their keys or values."""

    code = "TOPOLOGY_MISSING_SERDE"


class SourceConflictError(TopologyError):
    """A topic is read twice in two different ways."""

    code = "TOPOLOGY_SOURCE_CONFLICT"


class StreamAndTableError(SourceConflictError):
    """A topic is read as a stream and as a table."""

    code = "TOPOLOGY_STREAM_AND_TABLE"


class OtherBuilderError(TopologyError):
    """Streams of two different builders are combined."""

    code = "TOPOLOGY_OTHER_BUILDER"


class RetentionError(TopologyError):
    """A store would drop data that its step still needs."""

    code = "TOPOLOGY_RETENTION"


class UnfinishedSplitError(TopologyError):
    """A stream is split without saying what happens to records that match no branch."""

    code = "TOPOLOGY_UNFINISHED_SPLIT"


class SplitEndedError(TopologyError):
    """A branch is added to a split that has already ended."""

    code = "TOPOLOGY_SPLIT_ENDED"


class JoinKeysError(TopologyError):
    """The two sides of a join write their keys differently, so none would ever match."""

    code = "TOPOLOGY_JOIN_KEYS"


class NotWindowedError(TopologyError):
    """A table without windows is asked to wait for its windows to close."""

    code = "TOPOLOGY_NOT_WINDOWED"


class SuppressVersionedError(TopologyError):
    """`suppress` is called on a versioned table."""

    code = "TOPOLOGY_SUPPRESS_VERSIONED"


class ProcessorError(TopologyError):
    """A processor cannot be created, opened or closed."""

    code = "TOPOLOGY_PROCESSOR"


class UnknownStoreError(TopologyError):
    """A step is to use a store that was never added."""

    code = "TOPOLOGY_UNKNOWN_STORE"


class ContextNotKeptError(TopologyError, AttributeError):
    """A processor uses a context that its `init` did not keep."""

    code = "TOPOLOGY_CONTEXT_NOT_KEPT"


class StoreAccessError(TopologyError):
    """A step uses a store that it did not declare, or writes one that it can only read."""

    code = "TOPOLOGY_STORE_ACCESS"


class SharedStoreError(TopologyError):
    """A store whose keys are changed from other lanes cannot be used as it is."""

    code = "TOPOLOGY_SHARED_STORE"


class UnknownChildError(TopologyError):
    """A processor forwards to a name that is neither a step after it nor one of its outputs."""

    code = "TOPOLOGY_UNKNOWN_CHILD"


class StorePathError(TopologyError):
    """Records travel between two steps that share a store."""

    code = "TOPOLOGY_STORE_PATH"


class NoSuchNameError(TopologyError, ImportError):
    """A Kafka Streams name is used that Mustela does not need."""

    code = "TOPOLOGY_NO_SUCH_NAME"


class NoSuchStepError(TopologyError, AttributeError):
    """A method or attribute is used that a stream, a table or an option does not have."""

    code = "TOPOLOGY_NO_SUCH_STEP"


class UnknownStepError(TopologyError):
    """A named step does not exist, or is of the wrong kind."""

    code = "TOPOLOGY_UNKNOWN_STEP"
