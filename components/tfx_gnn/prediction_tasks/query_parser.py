"""Reads what a task predicts, and its conditions, as a syntax tree.

predicted   = condition | "distinct" of_rows ["top" number]
condition   = conjunction {"or" conjunction}
conjunction = negation {"and" negation}
negation    = "not" negation | test
test        = "(" condition ")" | value [operator value | "is" ["not"] "null" | ["not"] "in" constants]
constants   = "(" constant {"," constant} ")"
value       = constant | aggregate | column
aggregate   = function of_rows
of_rows     = "(" name ["." name] ["by" name {"." name}] ["where" condition] "," window ")"
window      = number [unit] "to" number unit
column      = name ["." name]
"""

from __future__ import annotations

import dataclasses
import re
from typing import NoReturn

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.prediction_tasks.durations import seconds_of_unit
from tfx_gnn.prediction_tasks.query_syntax import (
    DISTINCT,
    FUNCTIONS,
    Aggregate,
    Column,
    Comparison,
    Condition,
    Constant,
    Distinct,
    Junction,
    Membership,
    Negation,
    NullTest,
    Value,
    Window,
)

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+")
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[<>=(),.*])
    )""",
    re.VERBOSE,
)
_OPERATORS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "==": "=", "!=": "<>", "<>": "<>"}
_WORDS = frozenset({"and", "by", "in", "is", "not", "null", "or", "to", "where"})
"""Words of the language, which are names in double quotes only."""
_DISTINCT = frozenset({DISTINCT, "list_distinct"})
_END = "end"
_MOST_DEEP = 50
_RECOMMENDED = 10
"""How many nodes are recommended where a text does not say."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Token:
    kind: str
    text: str
    position: int

    @property
    def word(self) -> str:
        """A word of the language in lower case; empty where it is something else, such as a name in quotes."""
        return self.text.casefold() if self.kind == "name" else ""


def parse_predicted(text: str) -> Condition | Distinct:
    """Reads what the field `predict` of a task says: a value, a condition, or what is recommended.

    Args:
        text: the text, such as "count(orders, 0 to 30 days) > 0" or "distinct(orders.product_id, 0 to 7 days) top 5".

    Returns:
        The syntax tree. Names are not looked up, and types not checked.

    Raises:
        ValueError: as for `parse_query`.
    """
    return _Parser(text, "predict").parse_predicted()


def parse_query(text: str, field: str) -> Condition:
    """Reads a value or a condition.

    Args:
        text: the text, such as "count(orders, 0 to 30 days) > 0".
        field: the field of the task that holds it, for errors.

    Returns:
        The syntax tree. Names are not looked up, and types not checked.

    Raises:
        ValueError: if the text breaks a rule of the grammar; the message has the place, counted in characters from 1.
    """
    return _Parser(text, field).parse()


def place_in(field: str, position: int) -> str:
    """Names a place in a field, to begin an error with."""
    return f"`{field}`, at character {position + 1},"


class _Parser:
    def __init__(self, text: str, field: str) -> None:
        self._text = text
        self._field = field
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def parse(self) -> Condition:
        found = self._condition()
        if self._token.kind != _END:
            self._refuse("end, or go on with and, or, or an operator", "Remove the rest, or join it.")
        return found

    def parse_predicted(self) -> Condition | Distinct:
        start = self._token
        if start.word not in _DISTINCT or self._tokens[self._next + 1].text != "(":
            return self.parse()
        self._take()
        self._expect("(", start.text)
        aggregate = self._rows(DISTINCT)
        if not aggregate.column:
            raise ValueError(
                f"{place_in(self._field, aggregate.position)} must have a foreign key in distinct, as in distinct("
                f"{aggregate.table}.product_id, 0 to 30 days); got {aggregate.table} alone. Add a dot and its name."
            )
        top = self._top() if self._takes("top") else _RECOMMENDED
        if self._token.kind != _END:
            self._refuse(
                "end after distinct, or go on with top and a number, because several nodes are no value to compare",
                "Compare count_distinct instead, or remove the rest.",
            )
        return Distinct(aggregate=aggregate, top=top)

    def _top(self) -> int:
        token = self._token
        if token.kind != "number" or not re.fullmatch(r"[1-9]\d{0,3}", token.text):
            self._refuse("have a number from 1 to 9999 after top", "Write, for example, top 10.")
        return int(self._take().text)

    def _split(self) -> list[_Token]:
        tokens, position, end = [], 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                raise ValueError(
                    f"{place_in(self._field, start)} must have names, numbers, 'texts' and operators; got "
                    f"{self._text[start : start + 10]!r}. Close quotes, and put names with other characters in double "
                    "quotes."
                )
            kind = match.lastgroup
            assert kind is not None
            tokens.append(_Token(kind=kind, text=match[kind], position=match.start(kind)))
            position = match.end()
        return [*tokens, _Token(kind=_END, text="", position=end)]

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += token.kind != _END
        return token

    def _takes(self, *words: str) -> bool:
        """Takes the next token if it is one of the words or signs."""
        token = self._token
        is_one = token.word in words or (token.kind == "sign" and token.text in words)
        self._next += is_one
        return is_one

    def _refuse(self, rule: str, advice: str) -> NoReturn:
        token = self._token
        got = repr(token.text) if token.text else "the end"
        raise ValueError(f"{place_in(self._field, token.position)} must {rule}; got {got}. {advice}")

    def _expect(self, sign: str, after: str) -> None:
        if not self._takes(sign):
            self._refuse(f"have {sign!r} after {after}", f"Add {sign!r}.")

    def _condition(self) -> Condition:
        self._depth += 1
        if self._depth > _MOST_DEEP:
            self._refuse(f"have at most {_MOST_DEEP} parentheses within each other", "Write it more simply.")
        operands = [self._conjunction()]
        while self._takes("or"):
            operands.append(self._conjunction())
        self._depth -= 1
        return operands[0] if len(operands) == 1 else Junction(operator="or", operands=tuple(operands))

    def _conjunction(self) -> Condition:
        operands = [self._negation()]
        while self._takes("and"):
            operands.append(self._negation())
        return operands[0] if len(operands) == 1 else Junction(operator="and", operands=tuple(operands))

    def _negation(self) -> Condition:
        is_negated = False
        while self._takes("not"):
            is_negated = not is_negated
        found = self._test()
        return Negation(operand=found) if is_negated else found

    def _test(self) -> Condition:
        position = self._token.position
        if self._takes("("):
            found = self._condition()
            self._expect(")", "a condition in parentheses")
            return found
        value = self._value()
        token = self._token
        if token.kind == "sign" and token.text in _OPERATORS:
            self._take()
            return Comparison(left=value, operator=_OPERATORS[token.text], right=self._value(), position=position)
        if self._takes("is"):
            is_null = not self._takes("not")
            if not self._takes("null"):
                self._refuse("have null after is", "Write is null, or is not null; for other values, write =.")
            return NullTest(value=value, is_null=is_null, position=position)
        is_in = not self._takes("not")
        if self._takes("in"):
            return Membership(value=value, options=self._options(), is_in=is_in, position=position)
        if not is_in:
            self._refuse("have in after not", "Write, for example, country not in ('DE', 'FR').")
        return value

    def _options(self) -> tuple[Constant, ...]:
        self._expect("(", "in")
        options = [self._constant()]
        while self._takes(","):
            options.append(self._constant())
        self._expect(")", "the last value")
        return tuple(options)

    def _constant(self) -> Constant:
        value = self._value()
        if not isinstance(value, Constant):
            raise ValueError(
                f"{place_in(self._field, value.position)} must be a number or 'text' in a list; got a name. Put texts "
                "in single quotes."
            )
        return value

    def _value(self) -> Value:
        token = self._take()
        if token.kind == "number":
            number = float(token.text)
            is_whole = re.fullmatch(r"-?\d+", token.text) is not None
            return Constant(value=int(token.text) if is_whole else number, position=token.position)
        if token.kind == "text":
            return Constant(value=token.text[1:-1].replace("''", "'"), position=token.position)
        if token.word in ("true", "false"):
            return Constant(value=token.word == "true", position=token.position)
        if token.kind not in ("name", "quoted") or token.word in _WORDS:
            self._next -= token.kind != _END
            self._refuse(
                "have a value", "Write a column, an aggregation such as count(orders, 0 to 30 days), or 'text'."
            )
        if token.kind == "name" and self._takes("("):
            return self._aggregate(token)
        table, name = "", _name(token)
        if self._takes("."):
            table, name = name, self._name("a table and a dot")
        return Column(table=table, name=name, position=token.position)

    def _aggregate(self, start: _Token) -> Aggregate:
        function = start.word
        if function in _DISTINCT:
            raise ValueError(
                f"{place_in(self._field, start.position)} must aggregate to one value; got {start.text!r}, which gives "
                "several nodes to recommend and stands alone, in `predict`. Write count_distinct for how many they are."
            )
        if function not in FUNCTIONS:
            raise ValueError(
                f"{place_in(self._field, start.position)} must have one of the functions {list(FUNCTIONS)}; got "
                f"{start.text!r}. {did_you_mean(function, FUNCTIONS)}"
            )
        return self._rows(function)

    def _rows(self, function: str) -> Aggregate:
        """Reads what is between the parentheses of a function, and the closing one."""
        position = self._token.position
        table, column = self._name("("), ""
        column_position = position
        if self._takes("."):
            column_position = self._token.position
            column = "" if self._takes("*") else self._name("a table and a dot")
        if not column and function not in ("count", DISTINCT):
            self._refuse(
                f"have a column in {function}, as in {function}({table}.amount, 0 to 30 days)",
                "Add a dot and its name.",
            )
        by: list[str] = []
        if self._takes("by"):
            by.append(self._name("by"))
            while self._takes("."):
                by.append(self._name("a foreign key and a dot"))
        where = self._condition() if self._takes("where") else None
        if not self._takes(","):
            self._refuse(
                f"have a comma and a window after what {function} takes", "Write, for example, , 0 to 30 days."
            )
        window = self._window()
        self._expect(")", "a window")
        return Aggregate(
            function=function,
            table=table,
            column=column,
            by=tuple(by),
            where=where,
            window=window,
            position=position,
            column_position=column_position,
        )

    def _window(self) -> Window:
        position = self._token.position
        start, start_unit = self._bound(), self._unit()
        if not self._takes("to"):
            self._refuse("have to between the bounds of a window", "Write, for example, 0 to 30 days.")
        end, end_unit = self._bound(), self._unit()
        if not end_unit:
            self._refuse("have a unit after a window", "Write seconds, minutes, hours, days or weeks.")
        window = Window(start=start * (start_unit or end_unit), end=end * end_unit)
        if window.start >= window.end:
            raise ValueError(
                f"{place_in(self._field, position)} must have a window that starts before it ends; got "
                f"{self._text[position : self._token.position].strip()!r}. Change its bounds."
            )
        return window

    def _bound(self) -> int:
        token = self._token
        if token.kind != "number" or not re.fullmatch(r"-?\d{1,9}", token.text):
            self._refuse(
                "have a whole number as the bound of a window", "Write, for example, -90 to 0 days, or a smaller unit."
            )
        return int(self._take().text)

    def _unit(self) -> int:
        token = self._token
        if token.kind != "name" or token.word == "to":
            return 0
        seconds = seconds_of_unit(token.text, place_in(self._field, token.position))
        self._take()
        return seconds

    def _name(self, after: str) -> str:
        if self._token.kind not in ("name", "quoted") or self._token.word in _WORDS:
            self._refuse(f"have a name after {after}", "Add it; names with other characters go in double quotes.")
        return _name(self._take())


def _name(token: _Token) -> str:
    return token.text[1:-1].replace('""', '"') if token.kind == "quoted" else token.text
