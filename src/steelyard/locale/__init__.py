"""The texts: the only room that holds sentences shown to a user, in Chinese and in English.

Everywhere else there are codes and parameters. `text` makes the sentence of any code, `reason_text`,
`verdict_text` and `error_text` those of the records; `word` names a value of a closed list.
"""

from steelyard.locale.catalogue import LANGUAGES, codes, has, word
from steelyard.locale.language import choose, negotiate
from steelyard.locale.remedies import factor_text, remedy_text
from steelyard.locale.sentences import (
    error_text,
    pointer_text,
    problem_title,
    reason_text,
    text,
    verdict_cause,
    verdict_text,
)

__all__ = [
    "LANGUAGES",
    "choose",
    "codes",
    "error_text",
    "factor_text",
    "has",
    "negotiate",
    "pointer_text",
    "problem_title",
    "reason_text",
    "remedy_text",
    "text",
    "verdict_cause",
    "verdict_text",
    "word",
]
