"""Problems with a registry, or with the schemas in it.

No record is to blame for them, so none of them sends one to a handler or to the dead letters.
"""

from __future__ import annotations

from mustela.errors import EnvironmentFault, UsageError

__all__ = [
    "IncompatibleSchemaError",
    "MissingLibraryError",
    "RegistryMissingError",
    "RegistryOptionError",
    "RegistryRefusedError",
    "RegistryUnreachableError",
    "SchemaTypeError",
    "SubjectMissingError",
]


class RegistryUnreachableError(EnvironmentFault):
    """The schema registry does not answer, or answers with an error of its own."""

    code = "REGISTRY_UNREACHABLE"
    retryable = True


class RegistryRefusedError(EnvironmentFault):
    """The schema registry refuses: wrong credentials, no permission, or a schema it cannot read."""

    code = "REGISTRY_REFUSED"


class IncompatibleSchemaError(EnvironmentFault):
    """The registry refuses a schema that is not compatible with earlier versions.

    ``fields`` holds ``subject``, ``schema`` (the new one) and ``latest`` (the registry's).
    """

    code = "REGISTRY_INCOMPATIBLE"


class SubjectMissingError(EnvironmentFault):
    """A subject does not have the schema that is needed, or the schema has no name for one."""

    code = "REGISTRY_SUBJECT_MISSING"


class RegistryMissingError(EnvironmentFault):
    """A serde needs a schema registry, and nothing says where it is."""

    code = "REGISTRY_MISSING"


class RegistryOptionError(UsageError):
    """A property of the registry has an invalid value."""

    code = "REGISTRY_OPTION"


class MissingLibraryError(UsageError):
    """A format needs a library that is not installed: an extra of Mustela."""

    code = "SERDE_MISSING_LIBRARY"


class SchemaTypeError(UsageError):
    """A type has no schema, or a schema cannot be read."""

    code = "SERDE_SCHEMA"
