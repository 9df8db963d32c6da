"""The errors of the test driver."""

from __future__ import annotations

from mustela.errors import UsageError

__all__ = [
    "EmptyTopicError",
    "GroupsDifferError",
    "PipedValueError",
    "TableError",
    "TestDriverError",
]


class TestDriverError(UsageError):
    """The test driver cannot do what was requested."""

    code = "TEST_DRIVER"
    __test__ = False


class EmptyTopicError(TestDriverError):
    """Nothing more can be read from an output topic."""

    code = "TEST_DRIVER_EMPTY_TOPIC"


class GroupsDifferError(TestDriverError):
    """A step gives different results in many key groups than in one."""

    code = "TEST_DRIVER_GROUPS"


class PipedValueError(TestDriverError):
    """A key or value does not fit the topic that it was piped to."""

    code = "TEST_DRIVER_PIPED_VALUE"


class TableError(TestDriverError):
    """A table of a test cannot be read."""

    code = "TEST_DRIVER_TABLE"
