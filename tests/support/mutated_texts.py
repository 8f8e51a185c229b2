"""Mutations of texts: characters and parts that are deleted, repeated, exchanged or inserted."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

ODD = (
    "", " ", "\0", "\n", "\t", "\x1b[31m", "\u202e", "\ufeff", "é", "ß", "ﬁ", "²", "٣", "\U0001f600", "\udc80", "%s",
    "{}",
    "{0}", "\\", "'", '"', "`", "$(x)", "-", "--", "/", "..", "*", "?", "0", "-1", "1e309", "nan", "9" * 25, "a" * 300,
    "None", "__class__", "for", "int", "#", ";", "*/", "//", "[", "]", "(", ")", "<", "|", "->", "=>", "...", "^", "&",
)  # fmt: skip
"""Texts that code may take for something else."""


def mutated(text: str, random: Random, alphabet: Sequence[str] = ODD) -> str:
    """A text with up to three mutations."""
    for _ in range(random.randint(1, 3)):
        first, last = sorted(random.randint(0, len(text)) for _ in range(2))
        last = min(last, first + random.randint(1, 4))
        part = text[first:last]
        match random.randrange(6):
            case 0:
                text = text[:first] + text[last:]
            case 1:
                text = text[:last] + part * random.randint(1, 3) + text[last:]
            case 2:
                text = text[:first] + part[::-1] + text[last:]
            case 3:
                text = text[:first] + part.swapcase() + text[last:]
            case 4:
                text = text[:first] + random.choice(alphabet) + text[last:]
            case _:
                text = text[:first] + random.choice(alphabet) + text[first:]
    return text


def mutated_list(texts: Sequence[str], random: Random) -> list[str]:
    """A list with up to two mutations: of a text, or of the order and number of the texts."""
    result = list(texts)
    for _ in range(random.randint(1, 2)):
        n = random.randrange(len(result) + 1)
        match random.randrange(5):
            case 0 if result:
                del result[n % len(result)]
            case 1:
                result.insert(n, random.choice(ODD))
            case 2 if result:
                result.insert(n, random.choice(result))
            case _ if result:
                result[n % len(result)] = mutated(result[n % len(result)], random)
    return result
