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
    """What should be a function cannot be called, or not with the arguments it will get."""

    code = "TOPOLOGY_FUNCTION"


class InitializerError(FunctionError):
    """An initializer is a value instead of a function that makes one."""

    code = "TOPOLOGY_INITIALIZER"


class SubtractorError(FunctionError):
    """A re-grouped table is folded without a function that takes values away again."""

    code = "TOPOLOGY_SUBTRACTOR"


class BadOptionError(TopologyError):
    """An option has a value that it cannot have."""

    code = "TOPOLOGY_BAD_OPTION"


class OptionConflictError(TopologyError):
    """An option is given twice and the two differ."""

    code = "TOPOLOGY_OPTION_CONFLICT"


class MissingSerdeError(TopologyError):
    """Records shall be written, but nothing says how their keys or values become bytes."""

    code = "TOPOLOGY_MISSING_SERDE"


class SourceConflictError(TopologyError):
    """A topic is read twice in two different ways."""

    code = "TOPOLOGY_SOURCE_CONFLICT"


class StreamAndTableError(SourceConflictError):
    """A topic is read as a stream and as a table."""

    code = "TOPOLOGY_STREAM_AND_TABLE"


class OtherBuilderError(TopologyError):
    """Two streams of different builders meet."""

    code = "TOPOLOGY_OTHER_BUILDER"


class RetentionError(TopologyError):
    """A store would drop what its step still needs."""

    code = "TOPOLOGY_RETENTION"


class UnfinishedSplitError(TopologyError):
    """A stream is split, and nothing says what becomes of records that belong to no branch."""

    code = "TOPOLOGY_UNFINISHED_SPLIT"


class SplitEndedError(TopologyError):
    """A branch is added to a split that is ended."""

    code = "TOPOLOGY_SPLIT_ENDED"


class JoinKeysError(TopologyError):
    """Two sides of a join write their keys in different ways, so that none would ever match."""

    code = "TOPOLOGY_JOIN_KEYS"


class NotWindowedError(TopologyError):
    """A table that is not windowed shall wait for its windows to close."""

    code = "TOPOLOGY_NOT_WINDOWED"


class SuppressVersionedError(TopologyError):
    """The changes of a versioned table shall be held back."""

    code = "TOPOLOGY_SUPPRESS_VERSIONED"


class ProcessorError(TopologyError):
    """A processor cannot be made, or cannot be opened or closed."""

    code = "TOPOLOGY_PROCESSOR"


class UnknownStoreError(TopologyError):
    """A step shall use a store that nobody has added."""

    code = "TOPOLOGY_UNKNOWN_STORE"


class ContextNotKeptError(TopologyError, AttributeError):
    """A processor asks for a context that its ``init`` did not keep."""

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
    """A name is asked for that Kafka Streams has and Mustela has no need of."""

    code = "TOPOLOGY_NO_SUCH_NAME"


class NoSuchStepError(TopologyError, AttributeError):
    """A stream, a table or an option is asked for something that it does not have."""

    code = "TOPOLOGY_NO_SUCH_STEP"


class UnknownStepError(TopologyError):
    """A step is named that is not there, or that is not of the right kind."""

    code = "TOPOLOGY_UNKNOWN_STEP"
