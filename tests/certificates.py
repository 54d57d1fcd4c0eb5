"""Certificates for tests, with all that RFC 5280 asks for: TLS of Python 3.13 takes no others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
OF_SERVERS = ExtendedKeyUsageOID.SERVER_AUTH
ISSUES = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip
PKCS8, OF_OPENSSL = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL


@dataclass(frozen=True)
class Certified:
    """A certificate, perhaps with those that vouch for it behind it, and its private key, both as PEM."""

    chain: str
    key: str


class Issuer:
    """Issues certificates, each with a key of its own; *above* has issued its own certificate, or nobody."""

    def __init__(self, name: str, above: Issuer | None = None) -> None:
        self.name, self.key = name, ec.generate_private_key(ec.SECP256R1())
        self.own = Certified((above or self)._signed(name, self.key, (-1, 1), is_issuer=True), pem_of(self.key))

    def issue(
        self,
        name: str,
        key: Key | None = None,
        days: tuple[int, int] = (-1, 1),
        purpose: x509.ObjectIdentifier | None = None,
    ) -> Certified:
        """Return a certificate for *name* that counts between two days from now, for one *purpose* or for any."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        return Certified(self._signed(name, key, days, purpose), pem_of(key))

    def _signed(
        self,
        name: str,
        key: Key,
        days: tuple[int, int],
        purpose: x509.ObjectIdentifier | None = None,
        *,
        is_issuer: bool = False,
    ) -> str:
        now = datetime.now(UTC)
        begins, ends = (now + timedelta(each) for each in days)
        built = (
            x509.CertificateBuilder(named(self.name), named(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=is_issuer, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if is_issuer:
            built = built.add_extension(ISSUES, critical=True)
        if purpose is not None:
            built = built.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        return built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def named(name: str) -> x509.Name:
    """Return who is called *name* only."""
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def pem_of(key: Key, password: bytes | None = None, form: serialization.PrivateFormat = PKCS8) -> str:
    """Return a private key as PEM, encrypted if there is a *password*."""
    hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        hidden = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, form, hidden).decode()
