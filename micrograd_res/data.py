"""A text file, one document a line, becomes lists of tokens."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from unicodedata import normalize

HUGE = 1000  # characters: a lone document longer than this is a mistake


def decode_file(path: str | Path, encoding: str = "utf-8") -> str:
    """The text of the file. OSError if it cannot be read, ValueError if it is not text."""
    raw = Path(path).read_bytes()
    try:
        text = raw.decode(encoding)
    except LookupError:
        raise ValueError(f"{encoding!r} is not an encoding that Python knows") from None
    except UnicodeDecodeError as error:
        where = f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        utf16 = "it has NUL bytes: not a text file, or one for --encoding utf-16"
        other = "name the encoding of the file, as in --encoding cp1252"
        remedy = utf16 if b"\0" in raw else other
        raise ValueError(f"{path}: not {encoding}: {where}; {remedy}") from None
    except ValueError as error:
        raise ValueError(f"{path}: cannot be read as {encoding!r}: {error}") from None
    if "\0" in text:
        raise ValueError(f"{path}: not a text file: NUL at character {text.index(chr(0))}")
    return text.removeprefix("\ufeff")  # the byte order mark that Windows puts before UTF-8


def read_documents(path: str | Path, encoding: str = "utf-8") -> list[str]:
    """The lines of the file without blank ones, stripped, in Unicode's composed form (NFC)."""
    text = decode_file(path, encoding)
    lines = (match[0] for match in re.finditer(r"[^\r\n]+", text))  # one at a time, for memory
    documents = [document for line in lines if (document := normalize("NFC", line).strip())]
    if not documents:
        raise ValueError(f"{path}: {'only white space' if text else 'empty'}, no document to read")
    if len(documents) == 1 and len(documents[0]) > HUGE:
        raise ValueError(
            f"{path}: a single line of {len(documents[0]):,} characters, "
            "but documents are separated by line ends"
        )
    return documents


def fingerprint(documents: Iterable[str]) -> str:
    """SHA-256, in hexadecimal, of the documents in their order."""
    return hashlib.sha256("\n".join(documents).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Tokenizer:
    """A token for each character, in sorted order, then BOS, which opens and closes a document."""

    alphabet: str

    @classmethod
    def of(cls, documents: Iterable[str]) -> Tokenizer:
        return cls("".join(sorted(set().union(*documents))))

    @cached_property
    def token_of(self) -> dict[str, int]:
        return {character: token for token, character in enumerate(self.alphabet)}

    @property
    def bos(self) -> int:
        return len(self.alphabet)

    @property
    def vocab_size(self) -> int:
        return len(self.alphabet) + 1

    def encode(self, document: str) -> list[int]:
        """The tokens of the document between two BOS."""
        unknown = sorted(set(document).difference(self.token_of))
        if unknown:
            raise ValueError(f"{''.join(unknown)!r} is not in the alphabet {self.alphabet!r}")
        return [self.bos, *(self.token_of[character] for character in document), self.bos]

    def decode(self, tokens: Iterable[int]) -> str:
        tokens = list(tokens)
        for token in tokens:
            if not 0 <= token <= self.bos:
                raise ValueError(f"token {token} is not in a vocabulary of {self.vocab_size}")
        return "".join(self.alphabet[token] for token in tokens if token != self.bos)


def split(documents: list[str], val_fraction: float) -> tuple[list[str], list[str]]:
    """Training and held-out documents. All copies of one document fall on the same side.

    The last val_fraction of the distinct documents is held out, rounded down: never all of them.
    """
    if not 0.0 <= val_fraction < 1.0:
        raise ValueError(f"val_fraction must be from 0 to below 1, not {val_fraction}")
    distinct = list(dict.fromkeys(documents))
    held_out = set(distinct[len(distinct) - int(len(distinct) * val_fraction) :])
    return (
        [document for document in documents if document not in held_out],
        [document for document in documents if document in held_out],
    )
