"""What the names of tables and columns tell."""

from __future__ import annotations

import re

_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
_ID_WORDS = frozenset({"guid", "id", "uuid"})
_KEY_WORDS = _ID_WORDS | {"code", "key", "nbr", "no", "nr", "num", "number"}
_ENTITY_WORDS = frozenset({"account", "client", "customer", "device", "member", "session", "user", "visitor"})
_TIME_WORDS = frozenset({"at", "created", "date", "datetime", "time", "timestamp", "ts", "utc"})
_OTHER_TIMES = frozenset(
    {"birth", "birthday", "birthdate", "born", "closed", "death", "deadline", "dob", "due", "end", "expire", "expired"}
    | {"expiry", "last", "modified", "return", "returned", "ship", "shipped", "to", "until", "update", "updated"}
    | {"valid"}
)
_SELF_WORDS = frozenset({"boss", "manager", "mentor", "parent", "predecessor", "supervisor"})


def named_ends(names: list[str]) -> tuple[str, str] | None:
    """Finds the columns that names tell to hold the sources and the targets of edges."""
    by_word = {"_".join(words_of(name)): name for name in reversed(names)}
    return next(
        ((by_word[source], by_word[target]) for source, target in _ENDS if source in by_word and target in by_word),
        None,
    )


def words_of(name: str) -> list[str]:
    """Splits a name into words in the singular, without "id" and numbers."""
    words = _all_words(name)
    return [word for word in words if word not in ("id", "key") and not word.isdecimal()] or words


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


def ends_with(words: list[str], others: list[str]) -> bool:
    """Whether the last words are the others."""
    return words[-len(others) :] == others


def says_key(name: str) -> bool:
    """Whether a column is named as keys are: `order_no`, `CUSTOMER_ID`, `productCode`."""
    words = _all_words(name)
    return words[-1] in _KEY_WORDS or not _ID_WORDS.isdisjoint(words)


def says_id(name: str) -> bool:
    """Whether a column is named as the ids of something else: `userId`, `SK_ID_CURR`, `customer`."""
    words = _all_words(name)
    return not _ID_WORDS.isdisjoint(words) or words[-1] in _ENTITY_WORDS


def names_entity(name: str) -> bool:
    """Whether a column is named after what has ids wherever it occurs, such as users."""
    return words_of(name)[-1] in _ENTITY_WORDS


def names_time(name: str) -> bool:
    """Whether a column of numbers is named as one of times, which its values must confirm."""
    return not _TIME_WORDS.isdisjoint(_all_words(name))


def names_other_time(name: str) -> bool:
    """Whether a time is another one than when its row came to be: of a birth, a change, an end."""
    return not _OTHER_TIMES.isdisjoint(_all_words(name))


def names_role_within(column: str) -> bool:
    """Whether a name is that of a role of rows of the same table, such as `manager_id` or `ReportsTo`."""
    words = words_of(column)
    return bool(set(words) & _SELF_WORDS) or words[-2:] in (["reply", "to"], ["report", "to"])


def _all_words(name: str) -> list[str]:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [_singular(word) for word in re.findall(r"[^\W_]+", parted.casefold())] or [name]
