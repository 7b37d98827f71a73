"""What the names of tables and columns tell."""

from __future__ import annotations

import collections
import re
from collections.abc import Collection, Sequence

_ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
_ID_WORDS = frozenset({"guid", "id", "uuid"})
_KEY_WORDS = _ID_WORDS | {"code", "key", "nbr", "no", "nr", "num", "number"}
_ENTITY_WORDS = frozenset({"account", "client", "customer", "device", "member", "session", "user", "visitor"})
_TIME_WORDS = frozenset({"at", "created", "date", "datetime", "time", "timestamp", "ts", "utc"})
_OTHER_TIMES = frozenset(
    {"birth", "birthday", "birthdate", "born", "closed", "death", "deadline", "deceased", "deleted", "died", "dob"}
    | {
        "dod",
        "due",
        "end",
        "estimated",
        "eta",
        "expected",
        "expire",
        "expired",
        "expiry",
        "last",
        "modified",
        "planned",
    }
    | {"promised", "required", "return", "returned", "ship", "shipped", "to", "until", "update", "updated", "valid"}
)
_YEAR_WORDS = frozenset({"season", "year", "yr"})
_SELF_WORDS = frozenset(
    {"boss", "duplicate", "manager", "mentor", "parent", "predecessor", "successor", "superior", "supervisor"}
)
_COUNT_WORDS = frozenset({"avg", "count", "max", "mean", "min", "n", "num", "number", "qty", "sum", "total"})
_CODE_WORDS = frozenset({"code", "postcode", "zip", "zipcode"})
_CATEGORY_WORDS = frozenset(
    {"category", "clas", "class", "grade", "kind", "level", "method", "mode", "priority", "reason", "severity"}
    | {"stage", "state", "status", "type"}
)
_WORDS_OF_FILES = frozenset({"csv", "data", "dataset", "dump", "export", "master", "raw", "table", "tbl"})
_PERIODS = frozenset({"date", "day", "hour", "minute", "month", "quarter", "season", "time", "week", "year"})
_PLURALS = {"children": "child", "indice": "index", "indices": "index", "men": "man", "people": "person"}
_NO_PLURALS = ("is", "ss", "us")
_SHORTEST_PLURAL = 3
_SHORTEST_ENTITY = 2
_NO_KEYS = frozenset(
    {
        "acid",
        "aid",
        "android",
        "asteroid",
        "avoid",
        "bid",
        "centroid",
        "covid",
        "druid",
        "fluid",
        "grid",
        "guid",
        "humid",
    }
    | {"hybrid", "invalid", "kid", "laid", "lid", "lipid", "liquid", "mermaid", "mid", "paid", "prepaid", "pyramid"}
    | {"rapid", "repaid", "rigid", "said", "solid", "squid", "steroid", "thyroid", "unpaid", "uuid", "valid", "void"}
    | {"donkey", "hockey", "hotkey", "jockey", "monkey", "passkey", "turkey", "whiskey"}
)
"""Words that end with "id" or "key" and name no id."""
_BETWEEN_WORDS = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])"
)
_LEAST_OF_PREFIXED = 3
_LONGEST_PREFIX = 2


def named_ends(names: list[str]) -> tuple[str, str] | None:
    """Finds the columns that names tell to hold the sources and the targets of edges."""
    by_word = {"_".join(words_of(name)): name for name in reversed(names)}
    return next(
        ((by_word[source], by_word[target]) for source, target in _ENDS if source in by_word and target in by_word),
        None,
    )


def words_of(name: str) -> list[str]:
    """Splits a name into the stems of its words, without "id" and numbers; a word and its plural have one stem."""
    words = _stems(name)
    return [word for word in words if word not in ("id", "key") and not word.isdecimal()] or words


def words_of_tables(names: Collection[str]) -> dict[str, list[str]]:
    """Splits names of tables as `words_of`, without what groups them, as in `wp_posts`, and words that say nothing.

    A first word groups tables if several have it, none has it alone, and what is left is not the name of another.

    Returns:
        The words by name, at least one each.
    """
    found = {name: words_of(name) for name in names}
    for name, words in found.items():
        while len(words) > 1 and words[-1] in _WORDS_OF_FILES:
            words = words[:-1]
        found[name] = words
    whole = list(found.values())
    first = collections.Counter(words[0] for words in whole)
    return {
        name: words[1:] if first[words[0]] > 1 and words[:1] not in whole and words[1:] not in ([], *whole) else words
        for name, words in found.items()
    }


def entity_name(column: str) -> str:
    """Names what a column holds ids of: `user` for `userId`."""
    words = [word for word in _all_words(column) if word not in ("id", "ids", "key") and not word.isdecimal()]
    return "_".join(words or _all_words(column))


def short_prefix(names: Sequence[str]) -> str:
    """Finds one or two letters with which the names of all columns of a table begin, as in `c_name` and `c_custkey`."""
    first = {_all_words(name)[0] for name in names}
    prefix = first.pop() if len(first) == 1 else ""
    return prefix if len(names) >= _LEAST_OF_PREFIXED and len(prefix) <= _LONGEST_PREFIX else ""


def _stems(name: str) -> list[str]:
    return [_stem(word) for word in _all_words(name)]


def _stem(word: str) -> str:
    """Shortens a word so that its plural gives the same: `category` and `categories`, `movie`, `status`, `address`."""
    if word in _PLURALS:
        return _PLURALS[word]
    if _is_plural(word):
        word = word[:-1]
    if word.endswith("ie"):
        return word[:-2] + "y"
    return word[:-1] if word.endswith(("se", "xe", "ze", "che", "she")) else word


def ends_with(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the last words are the others."""
    return list(words[-len(others) :]) == list(others)


def _is_plural(word: str) -> bool:
    return word in _PLURALS or (len(word) >= _SHORTEST_PLURAL and word[-1] == "s" and not word.endswith(_NO_PLURALS))


def says_key(name: str) -> bool:
    """Whether a column is named as keys are: `order_no`, `CUSTOMER_ID`, `productCode`."""
    words = _stems(name)
    return words[-1] in _KEY_WORDS or not _ID_WORDS.isdisjoint(words)


def without_key_word(words: Sequence[str]) -> list[str]:
    """Leaves out a last word that only says that something is a key: of `emp_no`, it is `emp`."""
    return list(words[:-1] if len(words) > 1 and words[-1] in _KEY_WORDS else words)


def says_count(name: str) -> bool:
    """Whether a column of integers is named as a number of things: `DownVotes`, `num_user`."""
    words = _all_words(name)
    return not says_key(name) and (_is_plural(words[-1]) or not _COUNT_WORDS.isdisjoint(words))


def says_id(name: str) -> bool:
    """Whether a column is named as the ids of something else: `userId`, `SK_ID_CURR`, `customer`; not `year_id`."""
    words = _stems(name)
    return (not _ID_WORDS.isdisjoint(words) and words_of(name)[-1] not in _PERIODS) or words[-1] in _ENTITY_WORDS


def says_reference(name: str) -> bool:
    """Whether integers are named as keys of another table are; `order_number` and `status_code` may be others."""
    return says_id(name) or _stems(name)[-1] == "key"


def says_code(name: str) -> bool:
    """Whether integers are names rather than quantities, such as `zip_code`, `postcode` and `vote_type_id`."""
    return says_reference(name) or not _CODE_WORDS.isdisjoint(_stems(name))


def says_category(name: str) -> bool:
    """Whether a column is named as one of few values are, such as `vote_type_id`."""
    return words_of(name)[-1] in _CATEGORY_WORDS


def names_entity(name: str) -> bool:
    """Whether a column is named after what has ids wherever it occurs, such as users."""
    return words_of(name)[-1] in _ENTITY_WORDS


def names_time(name: str) -> bool:
    """Whether a column of numbers is named as one of times, which its values must confirm."""
    return not _TIME_WORDS.isdisjoint(_stems(name))


def names_year(name: str) -> bool:
    """Whether a column of numbers is named as one of years, which its values must confirm."""
    return not _YEAR_WORDS.isdisjoint(_stems(name))


def names_other_time(name: str) -> bool:
    """Whether a time is another one than when its row came to be: of a birth, a change, an end."""
    return not _OTHER_TIMES.isdisjoint(_stems(name))


def names_role_within(column: str) -> bool:
    """Whether a name is that of a role of rows of the same table, such as `manager_id` or `ReportsTo`."""
    words = words_of(column)
    return bool(set(words) & _SELF_WORDS) or words[-2:] in (["reply", "to"], ["report", "to"])


def _all_words(name: str) -> list[str]:
    parted = _BETWEEN_WORDS.sub("_", name).casefold()
    words = [part for word in re.findall(r"[^\W_]+", parted) for part in _with_key_apart(word)]
    return words or [name]


def _with_key_apart(word: str) -> list[str]:
    """Parts `itemid` and `custkey`, but not `paid` and `monkey`."""
    end = next((end for end in ("id", "key") if word.endswith(end) and len(word) >= len(end) + _SHORTEST_ENTITY), "")
    return [word.removesuffix(end), end] if end and word not in _NO_KEYS else [word]
