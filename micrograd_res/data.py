"""From a text file with one document a line to lists of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


def read_documents(path: str | Path, encoding: str = "utf-8") -> list[str]:
    lines = Path(path).read_text(encoding=encoding).splitlines()
    return [line.strip() for line in lines if line.strip()]


@dataclass(frozen=True)
class Tokenizer:
    """One token for each character, in sorted order, then BOS, which opens and closes a document."""

    alphabet: str

    @classmethod
    def of(cls, documents: Iterable[str]) -> Tokenizer:
        return cls("".join(sorted(set().union(*documents))))

    @property
    def bos(self) -> int:
        return len(self.alphabet)

    @property
    def vocab_size(self) -> int:
        return len(self.alphabet) + 1

    def encode(self, document: str) -> list[int]:
        """The tokens of the document between two BOS."""
        index = {character: token for token, character in enumerate(self.alphabet)}
        unknown = sorted(set(document) - set(index))
        if unknown:
            raise ValueError(f"{''.join(unknown)!r} is not in the alphabet {self.alphabet!r}")
        return [self.bos, *(index[character] for character in document), self.bos]

    def decode(self, tokens: Iterable[int]) -> str:
        return "".join(self.alphabet[token] for token in tokens if token != self.bos)


def split(documents: list[str], val_fraction: float) -> tuple[list[str], list[str]]:
    """Training and held-out documents. All copies of one document fall on the same side."""
    if not 0.0 <= val_fraction < 1.0:
        raise ValueError(f"val_fraction must be from 0 to below 1, not {val_fraction}")
    distinct = list(dict.fromkeys(documents))
    held_out = set(distinct[len(distinct) - int(len(distinct) * val_fraction) :])
    return (
        [document for document in documents if document not in held_out],
        [document for document in documents if document in held_out],
    )
