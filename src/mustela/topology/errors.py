"""What can be wrong with a topology: found when it is written, before anything runs."""

from __future__ import annotations

from mustela.errors import UsageError

__all__ = [
    "BadNameError",
    "BadOptionError",
    "DuplicateNameError",
    "DuplicateStoreError",
    "FunctionError",
    "InitializerError",
    "MissingSerdeError",
    "OptionConflictError",
    "OtherBuilderError",
    "SourceConflictError",
    "StreamAndTableError",
    "TopologyError",
]


class TopologyError(UsageError):
    """A topology cannot be built as it was written."""

    code = "TOPOLOGY"


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
