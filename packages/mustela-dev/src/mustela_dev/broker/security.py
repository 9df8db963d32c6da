"""A broker that asks who is there: an authority, a certificate and a user, all of its own.

Everything is in ``security`` in the data directory, for the owner only. The authority's key is
written nowhere: it signs one certificate and is forgotten.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mustela_dev.broker.probe import LOOPBACK, Login
from mustela_dev.broker.record import make_private, write_private

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["USER", "BrokerSecurity", "find_security", "make_security"]

USER = "developer"
BROKER_USER = "broker"
DIRECTORY = "security"
FORMAT = 1
VALID_DAYS = 90
VALID_LEFT_DAYS_MIN = 7
PASSWORD_BYTES = 24
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """What a secured broker and its clients need.

    Attributes:
        directory: Where its files are.
        password: The password of `USER`.
        broker_password: That of the broker, which is its own client.
    """

    directory: Path
    password: str = field(repr=False)
    broker_password: str = field(repr=False)

    @property
    def ca(self) -> Path:
        """The certificate that clients trust, in PEM."""
        return self.directory / "ca.pem"

    @property
    def environment_file(self) -> Path:
        """The settings of an application as variables, for a shell or for an image."""
        return self.directory / "client.env"

    @property
    def settings_file(self) -> Path:
        """The same as a settings file."""
        return self.directory / "client.yaml"

    @property
    def login(self) -> Login:
        """The login of the broker's own user."""
        return Login(ca=self.ca, user=BROKER_USER, password=self.broker_password)

    def client_properties(self) -> dict[str, str]:
        """Return the properties of a client, by librdkafka's names."""
        return {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.ca),
        }

    def server_properties(
        self, port: int, controller_port: int, address: str = LOOPBACK
    ) -> dict[str, str]:
        """Return what is different about the properties of the broker.

        Args:
            port: The port for clients.
            controller_port: The port of the controller, which listens on loopback alone.
            address: Where clients reach it.
        """
        users = {USER: self.password, BROKER_USER: self.broker_password}
        known = "".join(f' user_{name}="{password}"' for name, password in users.items())
        login = f'username="{BROKER_USER}" password="{self.broker_password}"'
        jaas = f"{_PLAIN} required {login}{known};"
        each = ("sasl_ssl", "controller")
        return {
            "listeners": f"SASL_SSL://{address}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
            "advertised.listeners": f"SASL_SSL://{address}:{port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            **{f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in each},
            **{f"listener.name.{name}.sasl.enabled.mechanisms": "PLAIN" for name in each},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }

    def write_client_files(self, port: int, address: str = LOOPBACK) -> None:
        """Write the settings of an application, for the owner only.

        Args:
            port: The port for clients.
            address: Where clients reach the broker.
        """
        servers, properties = f"{address}:{port}", self.client_properties()
        variables = {"MUSTELA__BOOTSTRAP_SERVERS": servers} | {
            f"MUSTELA__KAFKA__{name.upper().replace('.', '_')}": text
            for name, text in properties.items()
        }
        lines = [f"{name}={shlex.quote(text)}\n" for name, text in variables.items()]
        write_private(self.environment_file, "".join(lines))
        # A text in JSON is one in YAML.
        settings = [f"bootstrap_servers: {json.dumps(servers)}\n", "kafka:\n"]
        settings += [f"  {name}: {json.dumps(text)}\n" for name, text in properties.items()]
        write_private(self.settings_file, "".join(settings))


def find_security(data_dir: Path) -> BrokerSecurity | None:
    """Return the security of a data directory, or None if it has none."""
    directory = data_dir / DIRECTORY
    try:
        loaded: Any = json.loads((directory / "users.json").read_text(encoding="utf-8"))
        table = cast("Mapping[str, Any]", loaded)
        if table["format"] != FORMAT:
            return None
        return BrokerSecurity(
            directory=directory,
            password=str(table["password"]),
            broker_password=str(table["broker_password"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make_security(data_dir: Path, *, now_ms: int, address: str = LOOPBACK) -> BrokerSecurity:
    """Return the security of a data directory.

    Certificates that are about to expire, or do not name the address, are made anew.

    Args:
        data_dir: The broker's data directory.
        now_ms: The time, in milliseconds since 1970.
        address: Where clients reach the broker.

    Raises:
        BrokerDirectoryError: If the directory cannot be written.
    """
    directory = data_dir / DIRECTORY
    make_private(directory)
    now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
    known = find_security(data_dir)
    if known is not None and _lasts(known, now, address):
        return known
    security = known or BrokerSecurity(
        directory=directory,
        password=secrets.token_urlsafe(PASSWORD_BYTES),
        broker_password=secrets.token_urlsafe(PASSWORD_BYTES),
    )
    _certify(security, now, address)
    users = {"password": security.password, "broker_password": security.broker_password}
    write_private(directory / "users.json", json.dumps({"format": FORMAT, **users}) + "\n")
    return security


def _lasts(security: BrokerSecurity, now: datetime.datetime, address: str) -> bool:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(security.ca.read_bytes())
        chain = x509.load_pem_x509_certificates((security.directory / "server.pem").read_bytes())
        names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError):
        return False
    left = certificate.not_valid_after_utc - now
    named = ipaddress.ip_address(address) in names.get_values_for_type(x509.IPAddress)
    return named and left >= datetime.timedelta(days=VALID_LEFT_DAYS_MIN)


def _certify(security: BrokerSecurity, now: datetime.datetime, address: str) -> None:
    """Make an authority, and a certificate for this machine's loopback names and an address."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    addresses = [ipaddress.ip_address(one) for one in dict.fromkeys((LOOPBACK, address))]
    names = [x509.DNSName("localhost"), *(x509.IPAddress(one) for one in addresses)]
    ca_name = _name("mustela development authority")
    ca = (
        _draft(ca_name, ca_name, authority, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    server = (
        _draft(_name("mustela development broker"), ca_name, key, now)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = private + server.public_bytes(pem) + ca.public_bytes(pem)
    write_private(security.directory / "server.pem", chain.decode("ascii"))
    write_private(security.ca, ca.public_bytes(pem).decode("ascii"))


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _draft(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )
