"""Certificate authorities for a test, and certificates of theirs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from statewright.network.tls import Tls


class Authority:
    """Signs certificates for ``localhost`` and both loopback addresses; ``directory`` keeps the PEM files."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory, self._name = directory, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = _describe(self._name, self._name, self._key).add_extension(constraints, critical=True)
        self.pem = certificate.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(self.pem)

    def issue(
        self, name: str, *, passphrase: str = "", names: tuple[str, ...] = (), hours: int = 1
    ) -> tuple[Path, Path]:
        """Files with a certificate and its key; it is for ``names``, too, and ends in so many hours."""
        key = ec.generate_private_key(ec.SECP256R1())
        addresses = map(ip_address, ("127.0.0.1", "::1"))
        hosts = [*map(x509.DNSName, ("localhost", *names)), *map(x509.IPAddress, addresses)]
        certificate = (
            _describe(_name(name), self._name, key, hours=hours)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(self._key, SHA256())
        )
        locked: KeySerializationEncryption = (
            BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
        )
        files = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
        files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
        return files

    def issue_tls(self, name: str = "server", *, client_ca: Path | None = None) -> Tls:
        """What a server with a certificate of this authority is set to."""
        certificate, key = self.issue(name)
        return Tls(certificate=certificate, key=key, client_ca=client_ca)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _describe(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, hours: int = 1
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now + timedelta(hours=hours))
    )
