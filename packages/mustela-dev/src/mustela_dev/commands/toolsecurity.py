"""The security settings for Kafka's own tools, as properties of the Java client."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mustela.errors import UsageError

__all__ = ["ToolSecurityError", "java_security", "nameless_file", "properties_text"]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_LOGIN_MODULES = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
_SAME_NAME = ("sasl.kerberos.service.name", "sasl.kerberos.min.time.before.relogin")
_OLD_KEYS = ("RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY")
_OWN_FILE = (
    "write a properties file for the Java client, and pass it to the tool: {flag} FILE; the "
    "settings are then not used"
)


class ToolSecurityError(UsageError):
    """The application's security settings cannot be translated for Kafka's own tools."""

    code = "KAFKA_TOOL_SECURITY"


def java_security(properties: Mapping[str, str], flag: str) -> dict[str, str]:
    """Return the security properties of a librdkafka client as properties of the Java client.

    Args:
        properties: The properties for librdkafka.
        flag: The option with which the tool takes its own file, for the error.

    Returns:
        Nothing for a broker without security.

    Raises:
        ToolSecurityError: If the Java client has no equivalent, or a file cannot be read.

    Example:
        >>> java_security({"security.protocol": "ssl", "ssl.ca.location": "/ca.pem"}, "--config")
        ... # doctest: +NORMALIZE_WHITESPACE
        {'security.protocol': 'SSL', 'ssl.truststore.type': 'PEM',
         'ssl.truststore.location': '/ca.pem'}
        >>> java_security({"client.id": "a"}, "--config")
        {}
    """
    protocol = properties.get("security.protocol", "plaintext").upper()
    if protocol == "PLAINTEXT":
        return {}
    result = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        result |= _sasl(properties, flag)
    if protocol.endswith("SSL"):
        result |= _tls(properties, flag)
    return result


def _sasl(properties: Mapping[str, str], flag: str) -> dict[str, str]:
    told = properties.get("sasl.mechanisms") or properties.get("sasl.mechanism") or "GSSAPI"
    mechanism = told.upper()
    result = {"sasl.mechanism": mechanism}
    result |= {name: properties[name] for name in _SAME_NAME if name in properties}
    if mechanism in _LOGIN_MODULES:
        options = {
            "username": properties.get("sasl.username", ""),
            "password": properties.get("sasl.password", ""),
        }
        return {**result, "sasl.jaas.config": _jaas(_LOGIN_MODULES[mechanism], options)}
    if mechanism != "GSSAPI":
        unknown = f"sasl.mechanism={mechanism}"
        raise _untranslated(unknown, flag)
    options = {"useTicketCache": "true"}
    if keytab := properties.get("sasl.kerberos.keytab"):
        principal = properties.get("sasl.kerberos.principal", "kafkaclient")
        options = {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab}
        options["principal"] = principal
    return {**result, "sasl.jaas.config": _jaas(_KERBEROS, options)}


def _jaas(module: str, options: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    listed = "".join(f' {name}="{quoted(value)}"' for name, value in options.items())
    return f"{module} required{listed};"


def _tls(properties: Mapping[str, str], flag: str) -> dict[str, str]:
    unknown = ""
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        unknown = "enable.ssl.certificate.verification=false"
    elif properties.get("ssl.crl.location"):
        unknown = "ssl.crl.location"
    if unknown:
        raise _untranslated(unknown, flag)
    result: dict[str, str] = {}
    where = properties.get("ssl.ca.location", "")
    if text := properties.get("ssl.ca.pem"):
        result |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}
    elif where and where != "probe":
        result["ssl.truststore.type"] = "PEM"
        if Path(where).is_dir():
            texts = [_read(file, "ssl.ca.location") for file in sorted(Path(where).iterdir())]
            result["ssl.truststore.certificates"] = "\n".join(texts)
        else:
            result["ssl.truststore.location"] = str(Path(where).absolute())
    result |= _key_store(properties)
    if "ssl.endpoint.identification.algorithm" in properties:
        told = properties["ssl.endpoint.identification.algorithm"]
        result["ssl.endpoint.identification.algorithm"] = "" if told == "none" else told
    return result


def _key_store(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the client's own key and certificates, if it has any."""
    if where := properties.get("ssl.keystore.location"):
        password = properties.get("ssl.keystore.password", "")
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(Path(where).absolute()),
            "ssl.keystore.password": password,
            "ssl.key.password": password,
        }
    chain, key = _pem(properties, "ssl.certificate"), _pem(properties, "ssl.key")
    if not chain or not key:
        return {}
    if any(f"BEGIN {kind}" in key for kind in _OLD_KEYS):
        what = "Kafka's tools cannot read the key in the settings"
        raise ToolSecurityError(
            what,
            evidence={"setting": "kafka.ssl.key.location or kafka.ssl.key.pem"},
            why="the Java client reads keys in PKCS#8 only ('BEGIN PRIVATE KEY')",
            fix="convert it: openssl pkcs8 -topk8 -nocrypt -in OLD.pem -out NEW.pem",
        )
    result = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }
    if password := properties.get("ssl.key.password"):
        result["ssl.key.password"] = password
    return result


def _pem(properties: Mapping[str, str], name: str) -> str:
    if text := properties.get(f"{name}.pem"):
        return text
    where = properties.get(f"{name}.location")
    return _read(Path(where), f"{name}.location") if where else ""


def _read(file: Path, setting: str) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError as problem:
        what = f"{file} cannot be read: {problem.strerror}"
        raise ToolSecurityError(
            what,
            evidence={"setting": f"kafka.{setting}"},
            fix=f"correct kafka.{setting}, or make the file readable",
        ) from problem


def _untranslated(setting: str, flag: str) -> ToolSecurityError:
    return ToolSecurityError(
        f"kafka.{setting} cannot be passed to Kafka's tools",
        why="Mustela cannot translate it to a property of the Java client",
        fix=_OWN_FILE.format(flag=flag),
    )


def properties_text(properties: Mapping[str, str]) -> str:
    r"""Return the text of a Java properties file, in ASCII.

    Example:
        >>> print(properties_text({"a.b": " c:\\d", "key": "é"}), end="")
        a.b=\u0020c:\\d
        key=\u00e9
    """
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    start = len(value) - len(value.lstrip(" "))
    units = memoryview(value.encode("utf-16-le")).cast("H")
    return "".join(_unit(unit, leading=place < start) for place, unit in enumerate(units))


def _unit(unit: int, *, leading: bool) -> str:
    character = chr(unit)
    if character == "\\":
        return "\\\\"
    if character == "\n":
        return "\\n"
    plain = " " <= character <= "~" and not leading
    return character if plain else f"\\u{unit:04x}"


def nameless_file(text: str) -> str:
    """Write a text to a file that only this process, and the program it becomes, can open.

    The file is readable only by its owner from the start, and its name is removed before anything
    else happens, so that secrets cannot be left on disk, however the tool ends.

    Returns:
        A path to it, valid as long as the process lives.
    """
    handle, path = tempfile.mkstemp(prefix="mustela-", suffix=".properties")
    try:
        os.write(handle, text.encode("ascii"))
    finally:
        Path(path).unlink()
    os.lseek(handle, 0, os.SEEK_SET)
    os.set_inheritable(handle, True)
    return f"/dev/fd/{handle}"
