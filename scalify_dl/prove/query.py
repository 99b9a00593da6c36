"""Ad hoc queries: the body of one Datalog rule, turned into a rule whose head lists its variables.

`corr(D,_,B,_,L), result(O,_,D), op(O,_,"dot")` becomes

    .decl query(D:symbol, B:symbol, L:symbol, O:symbol)
    query(D, B, L, O) :- corr(D,_,B,_,L), result(O,_,D), op(O,_,"dot").

The types of the columns are those of the relations' attributes that the variables stand at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from scalify_dl.errors import InputError

HEAD = "query_answer"
_TOKEN = re.compile(r"""\s+|//[^\n]*|"(?:[^"\\]|\\.)*"|[A-Za-z_?][\w?.]*|\d[\w.]*|:-|!=|<=|>=|.""", re.DOTALL)
_WORDS = frozenset(
    {"band", "bor", "bxor", "bnot", "bshl", "bshr", "land", "lor", "lnot", "lxor", "max", "min", "cat", "count", "sum"}
    | {"mean", "range", "match", "contains", "true", "false", "nil", "ord", "strlen", "substr", "as", "autoinc"}
    | {"to_number", "to_string", "to_float", "to_unsigned", "itof", "itou", "ftoi", "utoi", "utof", "ftou"}
)
"""Names that are neither relations nor variables."""


@dataclass(frozen=True)
class Query:
    """A query as a rule. `columns` are its variables in order of appearance, with their types."""

    body: str
    columns: tuple[tuple[str, str], ...]
    relations: frozenset[str]
    apart: str = ""
    """A warning, where parts of the body share no variable: every row is then joined with every row."""

    @property
    def rule(self) -> str:
        """Declaration and rule, to be added to a program that declares the relations."""
        head = self.columns or (("holds", "number"),)
        names = ", ".join(name for name, _ in self.columns) or "1"
        types = ", ".join(f"{name}:{type_}" for name, type_ in head)
        return f".decl {HEAD}({types})\n{HEAD}({names}) :- {self.body}.\n"


def parse_query(
    text: str,
    relations: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]] | None = None,
    tables: Mapping[str, str] | None = None,
) -> Query:
    """Read a query against relations given as name → types of the attributes, and, for what is said where it does not
    fit (InputError), their names and the relations of fact tables that have another name than their table."""
    body = text.strip().rstrip(".").removeprefix("?-").strip()
    tokens = [m[0] for m in _TOKEN.finditer(body) if not m[0].isspace() and not m[0].startswith("//")]
    if not tokens:
        raise InputError(
            "the query is empty", expected='a rule body such as corr(D,_,B,_,L), result(O,_,D), op(O,_,"dot")'
        )
    if ":-" in tokens:
        raise InputError(
            "the query is a rule", expected="a rule body only", hint="put rules into a file and use --rules"
        )
    types: dict[str, str] = {}
    order: dict[str, None] = {}
    used: set[str] = set()
    stack: list[tuple[str | None, int]] = []
    """Open brackets, with the relation (if it is an atom's) and the position of the argument."""
    hidden = 0
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        if token in "([{":
            before = tokens[i - 1] if i and token == "(" else ""
            atom = before if before in relations else None
            stack.append((atom, 0))
            hidden += token == "{"  # variables of an aggregate's body are its own
        elif token in ")]}":
            if not stack:
                raise InputError(f"`{token}` closes nothing in the query", column=i + 1)
            hidden -= token == "}"
            relation, position = stack.pop()
            given = 0 if tokens[i - 1] == "(" else position + 1
            if relation is not None and given != (expected := len(relations[relation])):
                has = f"{expected} {'column' if expected == 1 else 'columns'}"
                names = columns.get(relation) if columns else None
                raise InputError(
                    f"`{relation}` has {has}, {given} {'is' if given == 1 else 'are'} given",
                    expected=f"{relation}({', '.join(names)})" if names else None,
                )
        elif token == "," and stack:
            relation, position = stack[-1]
            stack[-1] = (relation, position + 1)
        elif (token[0].isdigit() or token[0] == '"') and stack and _whole_argument(tokens, i):
            relation, position = stack[-1]
            if relation is not None and position < len(relations[relation]):
                _fits(token, relation, position, relations[relation], columns)
        elif tables and token in tables and following == "(" and (not i or tokens[i - 1] in ",;!{"):
            raise _keyword(token, tables[token], columns)
        elif re.match(r"[A-Za-z_?]", token) and token != "_" and token not in _WORDS:
            if following == "(":
                if token not in relations and not (i and tokens[i - 1] in "@$"):
                    near = get_close_matches(token, relations, 3)
                    hint = f"did you mean {' or '.join(near)}?" if near else "docs/facts.md and docs/cli.md list them"
                    raise InputError(f"no relation `{token}`", hint=hint)
                used.add(token)
                continue
            if hidden or (i and tokens[i - 1] in "$@"):
                continue
            order.setdefault(token)
            relation, position = stack[-1] if stack else (None, 0)
            if relation is not None:
                attributes = relations[relation]
                if position < len(attributes) and _whole_argument(tokens, i):
                    types.setdefault(token, attributes[position])
    if stack:
        relation = stack[-1][0]
        raise InputError(f"a bracket of `{relation}` is not closed" if relation else "a bracket is not closed",
                         expected='a rule body such as corr(D,_,B,_,L), result(O,_,D), op(O,_,"dot")')  # fmt: skip
    variables = tuple((name, types.get(name, "number")) for name in order)
    return Query(body, variables, frozenset(used), _apart(tokens, relations))


def _keyword(table: str, relation: str, columns: Mapping[str, Sequence[str]] | None) -> InputError:
    names = ", ".join(columns[relation]) if columns and relation in columns else "…"
    return InputError(
        f"the table `{table}` is `{relation}` here: `{table}` is a word of the language",
        expected=f"{relation}({names})",
    )


def _apart(tokens: list[str], relations: Mapping[str, Sequence[str]]) -> str:
    """Which atoms of a body are joined with no others, in words."""
    if "{" in tokens or ";" in tokens:
        return ""
    groups: list[tuple[list[str], set[str]]] = []
    depth, words, names = 0, [], set()  # type: int, list[str], set[str]
    for token in [*tokens, ","]:
        depth += (token in "([") - (token in ")]")
        if token == "," and depth == 0:
            joined = [g for g in groups if g[1] & names] if names else []
            groups = [g for g in groups if g not in joined]
            if names:
                groups.append(([w for g in joined for w in g[0]] + words, names.union(*(g[1] for g in joined))))
            words, names = [], set()
        elif token in relations and depth == 0:
            words.append(token)
        elif re.match(r"[A-Za-z?]", token) and token not in _WORDS and token not in relations:
            names.add(token)
    if sum(bool(g[0]) for g in groups) < 2:
        return ""
    parts = " and ".join(f"`{', '.join(dict.fromkeys(words))}`" for words, _ in groups if words)
    return f"{parts} share no variable: every row of one stands with every row of the other"


def _fits(
    token: str, relation: str, position: int, types: Sequence[str], columns: Mapping[str, Sequence[str]] | None
) -> None:
    """InputError where a text stands in a column of numbers, or a number in one of texts."""
    text, wanted = token[0] == '"', types[position]
    if wanted in ("symbol", "number") and text != (wanted == "symbol"):
        names = (columns or {}).get(relation, [f"{n}" for n in range(len(types))])
        is_ = "a text" if text else "a number"
        raise InputError(
            f"{token} is {is_}, column `{names[position]}` of `{relation}` has {'numbers' if text else 'texts'}",
            expected=f"{relation}({', '.join(f'{n}: {t}' for n, t in zip(names, types, strict=True))})",
            hint=None if text else f'texts stand in double quotes: "{token}"',
        )


def _whole_argument(tokens: list[str], i: int) -> bool:
    return tokens[i - 1] in "(," and i + 1 < len(tokens) and tokens[i + 1] in "),"
