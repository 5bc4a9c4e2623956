"""Whether a secret can be read where it must not be: in the folder of a sidecar, and in what clients printed.

The table of encodings is that of `tests/harness/encodings.rs`; both are tried with `tests/cases/canary.toml`."""

import base64
import codecs


def _each(form):
    return lambda secret: ["".join(form.format(byte) for byte in secret.encode()).encode()]


def _percent(form, every):
    def spell(secret):
        return ["".join(form.format(byte) if every or not chr(byte).isalnum() else chr(byte)
                        for byte in secret.encode()).encode()]
    return spell


def _inside(encode, secret, before, group, each):
    """What is the same around every secret with so many bytes before it: `each` bits a character."""
    whole = bytes(before) + secret
    padded = whole + bytes(-len(whole) % group)
    return encode(padded)[-(-before * 8 // each):len(whole) * 8 // each]


def _base64(encode, before):
    return lambda secret: [_inside(encode, secret.encode(), before, 3, 6)]


def _base64_twice(secret):
    once = [_inside(base64.b64encode, secret.encode(), before, 3, 6) for before in range(3)]
    return [_inside(base64.b64encode, inner, before, 3, 6) for inner in once for before in range(3)]


ENCODINGS = {
    "it is": lambda secret: [secret.encode()],
    "lower case": lambda secret: [secret.lower().encode()],
    "upper case": lambda secret: [secret.upper().encode()],
    "reversed text": lambda secret: [secret[::-1].encode()],
    "rot13": lambda secret: [codecs.encode(secret, "rot13").encode()],
    "hex, lower": _each("{:02x}"),
    "hex, upper": _each("{:02X}"),
    "percent, all but letters and digits, upper": _percent("%{:02X}", every=False),
    "percent, all but letters and digits, lower": _percent("%{:02x}", every=False),
    "percent, every byte, upper": _percent("%{:02X}", every=True),
    "percent, every byte, lower": _percent("%{:02x}", every=True),
    "base64, 1st alignment": _base64(base64.b64encode, 0),
    "base64, 2nd alignment": _base64(base64.b64encode, 1),
    "base64, 3rd alignment": _base64(base64.b64encode, 2),
    "base64 of URLs, 1st alignment": _base64(base64.urlsafe_b64encode, 0),
    "base64 of URLs, 2nd alignment": _base64(base64.urlsafe_b64encode, 1),
    "base64 of URLs, 3rd alignment": _base64(base64.urlsafe_b64encode, 2),
    "base64 of base64": _base64_twice,
    "base32": lambda secret: [_inside(base64.b32encode, secret.encode(), before, 5, 5) for before in range(5)],
    "JSON escapes, lower": _each("\\u{:04x}"),
    "JSON escapes, upper": _each("\\u{:04X}"),
    "hex escapes": _each("\\x{:02x}"),
    "HTML entities, decimal": _each("&#{};"),
    "HTML entities, hex": _each("&#x{:X};"),
    "quoted-printable": _each("={:02X}"),
    "UTF-16, little end first": lambda secret: [secret.encode("utf-16-le")],
    "UTF-16, big end first": lambda secret: [secret.encode("utf-16-be")],
    "a list of bytes": lambda secret: [between.join(str(byte) for byte in secret.encode()).encode()
                                       for between in (", ", ",", " ")],
}


def hits(secrets, data):
    """The names of the secrets that can be read in the bytes, each with its encoding. `secrets` by their names."""
    return [(name, encoding) for name, secret in secrets.items() for encoding, spell in ENCODINGS.items()
            if any(spelling in data for spelling in spell(secret))]


def nowhere_in(secrets, place, data):
    """Fails the test, and does not print the secret."""
    found = hits(secrets, data)
    assert not found, f"a secret is in {place}: " + "; ".join(f"{name}, as {encoding}" for name, encoding in found)


def nowhere_below(secrets, folder, but=()):
    """Looks through the files of a folder, but those of these names; says how many there were."""
    files = [file for file in folder.rglob("*")
             if file.is_file() and not file.is_symlink() and file.name not in but]
    for file in files:
        nowhere_in(secrets, file, file.read_bytes())
    return len(files)
