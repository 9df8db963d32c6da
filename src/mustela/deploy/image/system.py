"""The lowest layer: Debian packages unpacked, and what their scripts would have done to them.

No script of a package is run. What those of Python, Java and the certificates do is known and done
here, always the same: users, the links of programs, bundles of certificates, and dpkg's list.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from mustela.deploy.image.debs import read_control, read_files
from mustela.deploy.image.trees import Entry, Tree
from mustela.deploy.pods import USER

__all__ = ["GROUP_FILE", "HOME", "PASSWD_FILE", "USER_NAME", "system_tree", "user_lines"]

USER_NAME = "mustela"
HOME = "/app"
PASSWD_FILE, GROUP_FILE = "etc/passwd", "etc/group"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
JAVA_CERTIFICATES = "etc/ssl/certs/java/cacerts"

_MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_LEFT_OUT = re.compile(
    r"usr/share/(?:man|info|locale|lintian|bug|doc-base|menu|gdb|applications|pixmaps|icons|binfmts"
    r"|bash-completion|debconf|perl5|java|fonts/truetype)(?:/|$)"
    r"|usr/share/doc/(?!.*/copyright$)"
    r"|usr/lib/(?:debug|systemd|udev|tmpfiles\.d|jvm/[^/]+/man)(?:/|$)"
    r"|usr/lib/jvm/[^/]+/lib/(?:ct\.sym|server/classes_nocoops\.jsa)$"
    r"|etc/(?:cron\.[a-z]+|systemd|init\.d|pam\.d|kernel)(?:/|$)"
)
_JVM = re.compile(r"usr/lib/jvm/(java-[^/]+)/bin/java")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_JKS_MAGIC, _JKS_VERSION, _JKS_TRUSTED = 0xFEEDFEED, 2, 2
_JKS_PASSWORD = "changeit"
_JKS_SALT = b"Mighty Aphrodite"

_BEGINNING = {
    PASSWD_FILE: "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    GROUP_FILE: "root:x:0:\ntty:x:5:\nstaff:x:50:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
    "networks: files\nprotocols: files\nservices: files\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/timezone": "Etc/UTC\n",
}


def system_tree(packages: Iterable[Path]) -> Tree:
    """Return the root directory that some packages make.

    Args:
        packages: Their files, in an order that is always the same.

    Raises:
        PackagesError: If one cannot be read.
    """
    tree = Tree()
    for name in _MERGED:
        tree.link(name, f"usr/{name}")
        tree.directory(f"usr/{name}")
    status: list[str] = []
    for package in packages:
        status.append(_installed(read_control(package)))
        for entry in read_files(package):
            # Since Debian 13 the links of merged directories are in a package: they are made above.
            if entry.path not in _MERGED and not _LEFT_OUT.match(entry.path):
                tree.add(replace(entry, path=_merged(entry.path)))
    for path, text in _BEGINNING.items():
        tree.file(path, text)
    tree.file("var/lib/dpkg/status", "\n".join(status))
    _add_user(tree)
    _add_programs(tree)
    _add_certificates(tree)
    return tree


def user_lines() -> dict[str, str]:
    """Return the line of the user that runs the application, for each file that lists users."""
    return {
        PASSWD_FILE: f"{USER_NAME}:x:{USER}:{USER}::{HOME}:/usr/sbin/nologin\n",
        GROUP_FILE: f"{USER_NAME}:x:{USER}:\n",
    }


def _merged(path: str) -> str:
    """Return where something is since ``/bin`` and ``/lib`` are links into ``/usr``."""
    return f"usr/{path}" if path.split("/", 1)[0] in _MERGED else path


def _installed(control: str) -> str:
    first, _, rest = control.partition("\n")
    return f"{first}\nStatus: install ok installed\n{rest}"


def _add_user(tree: Tree) -> None:
    for path, line in user_lines().items():
        tree.file(path, (tree.get(path) or Entry(path=path)).read().decode() + line)
    tree.directory("tmp", 0o1777)
    tree.directory("var/tmp", 0o1777)
    tree.directory("root", 0o700)
    for name in ("proc", "sys", "dev", "run"):
        tree.directory(name)


def _add_programs(tree: Tree) -> None:
    tree.link("etc/localtime", "/usr/share/zoneinfo/Etc/UTC")
    if tree.get("usr/bin/mawk") is not None:
        tree.link("usr/bin/awk", "mawk")
    homes = [match[1] for entry in tree.files() if (match := _JVM.fullmatch(entry.path))]
    for home in homes[-1:]:
        tree.link("usr/lib/jvm/default-java", home)
        for name in ("java", "keytool"):
            tree.link(f"usr/bin/{name}", f"../lib/jvm/{home}/bin/{name}")


def _add_certificates(tree: Tree) -> None:
    known: list[tuple[str, bytes]] = []
    for entry in list(tree.files("usr/share/ca-certificates/", ".crt")):
        known += [(Path(entry.path).stem, found) for found in _CERTIFICATE.findall(entry.read())]
    if not known:
        return
    block = b"-----BEGIN CERTIFICATE-----%s-----END CERTIFICATE-----\n"
    bundle = b"".join(block % body for _, body in known)
    tree.add(Entry(path=CERTIFICATES, content=bundle))
    tree.link("usr/lib/ssl/cert.pem", f"/{CERTIFICATES}")
    tree.add(Entry(path=JAVA_CERTIFICATES, content=_key_store(known)))


def _key_store(certificates: list[tuple[str, bytes]]) -> bytes:
    """Return Java's older form of a store, which holds no time but what is written into it."""
    body = struct.pack(">III", _JKS_MAGIC, _JKS_VERSION, len(certificates))
    for name, text in certificates:
        content = base64.b64decode(text)
        body += struct.pack(">I", _JKS_TRUSTED) + _java_text(f"debian:{name.lower()}.pem")
        body += struct.pack(">Q", 0) + _java_text("X.509")
        body += struct.pack(">I", len(content)) + content
    password = _JKS_PASSWORD.encode("utf-16-be")
    # The sum that the form demands; whoever can write the file can write the sum too.
    return body + hashlib.sha1(password + _JKS_SALT + body, usedforsecurity=False).digest()


def _java_text(text: str) -> bytes:
    content = text.encode()
    return struct.pack(">H", len(content)) + content
