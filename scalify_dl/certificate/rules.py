"""The checker's own reader of rule files: the part of Soufflé's dialect that the shipped rules are written in.

Anything else (components, macros, functors of the host, eqrel, subsumption) is refused: a checker that guesses is none.
Disjunctions become several clauses with the same place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .terms import (
    Aggregate,
    Apply,
    Atom,
    Clause,
    Compare,
    Const,
    Literal,
    Record,
    RuleError,
    RuleSet,
    Term,
    Var,
    atoms,
    own_variables,
)

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<include>\#include[ \t]*"[^"\n]*")|(?P<text>"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<directive>\.(?:decl|input|output|printsize|type|plan|pragma)\b)|(?P<number>\d+)\b"""
    r"""|(?P<name>[A-Za-z_?][\w?]*)|(?P<sign>:-|!=|<=|>=|<:|[-+*/%^()\[\]{},:=<>!;.|$])""",
    re.DOTALL,
)
_ESCAPE = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_AGGREGATES = frozenset({"count", "sum", "min", "max"})
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_AFTER_LITERAL = frozenset({",", ";", ".", ")", "}"})
_WORD_OPERATORS = frozenset({"band", "bor", "bxor", "bshl"})


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str, file: str) -> list[_Token]:
    out = []
    at, line = 0, 1
    for m in _TOKEN.finditer(text):
        if m.start() != at:
            break
        at = m.end()
        kind, word = m.lastgroup, m[0]
        if kind != "skip":
            out.append(_Token(kind, word, line))  # type: ignore[arg-type]
        elif "\n" in word:
            line += word.count("\n")
    if at < len(text):
        raise RuleError(f"{file}:{line}: not understood: {text[at : at + 30]!r}")
    out.append(_Token("end", "", line))
    return out


class _Reader:
    """Recursive descent over the tokens of one file."""

    def __init__(self, file: Path, rules: RuleSet) -> None:
        self.file = str(file)
        self.rules = rules
        self.tokens = _tokens(file.read_text("utf-8"), self.file)
        self.at = 0

    def fail(self, what: str) -> RuleError:
        token = self.tokens[self.at]
        return RuleError(f"{self.file}:{token.line}: {what}, found {token.text!r}")

    def peek(self) -> str:
        return self.tokens[self.at].text

    def take(self, text: str | None = None) -> str:
        token = self.tokens[self.at]
        if (text is not None and token.text != text) or token.kind == "end":
            raise self.fail(f"expected {text!r}")
        self.at += 1
        return token.text

    def maybe(self, text: str) -> bool:
        if self.tokens[self.at].text == text and self.tokens[self.at].kind != "text":
            self.at += 1
            return True
        return False

    def name(self) -> str:
        if self.tokens[self.at].kind != "name":
            raise self.fail("expected a name")
        return self.take()

    # ---- a file

    def includes(self) -> Iterator[str]:
        """Read the file; yields the paths that it includes, which are to be read before going on."""
        while self.tokens[self.at].kind != "end":
            kind, text, _ = self.tokens[self.at]
            if kind == "include":
                self.at += 1
                yield text.split('"')[1]
            elif kind == "directive":
                self.directive(self.take())
            else:
                self.clause()

    def directive(self, word: str) -> None:
        if word == ".decl":
            names = [self.name()]
            while self.maybe(","):
                names.append(self.name())
            self.take("(")
            attributes, types = [], []
            while not self.maybe(")"):
                attributes.append(self.name())
                self.take(":")
                types.append(self.name())
                self.maybe(",")
            for name in names:
                self.rules.relations[name] = tuple(types)
            if self.maybe("choice"):
                self.take("-")
                self.take("domain")
                keys = self.keys(attributes)
                self.rules.choices.update(dict.fromkeys(names, keys))
        elif word in (".input", ".output", ".printsize"):
            names = [self.name()]
            while self.maybe(","):
                names.append(self.name())
            parameters = {}
            if self.maybe("("):
                while not self.maybe(")"):
                    key = self.name()
                    self.take("=")
                    parameters[key] = self.take().strip('"')
                    self.maybe(",")
            if word == ".input":
                if parameters.keys() - {"filename"}:
                    raise self.fail("the checker knows no parameter of .input but filename")
                for name in names:
                    self.rules.inputs[name] = parameters.get("filename", f"{name}.facts")
        elif word == ".pragma":
            while self.tokens[self.at].kind == "text":
                self.take()
        elif word == ".type":
            self.name()
            if not self.maybe("="):
                self.take("<:")
            if self.maybe("["):
                while not self.maybe("]"):
                    self.take()
            else:
                self.branch()
                while self.maybe("|"):
                    self.branch()
        else:
            raise self.fail(f"the checker does not know {word}")

    def keys(self, attributes: list[str]) -> list[tuple[int, ...]]:
        """The keys of a choice domain: `a, (b, c)`."""
        out = []
        while True:
            if self.maybe("("):
                names = [self.name()]
                while self.maybe(","):
                    names.append(self.name())
                self.take(")")
            else:
                names = [self.name()]
            out.append(tuple(attributes.index(name) for name in names))
            if not self.maybe(","):
                return out

    def branch(self) -> None:
        self.name()
        if self.maybe("{"):
            while not self.maybe("}"):
                self.take()

    # ---- clauses

    def clause(self) -> None:
        start, line = self.at, self.tokens[self.at].line
        heads = [self.atom()]
        while self.maybe(","):
            heads.append(self.atom())
        bodies: list[tuple[Literal, ...]] = [()]
        if self.maybe(":-"):
            bodies = self.disjunction()
        self.take(".")
        text = " ".join(t.text for t in self.tokens[start : self.at])
        for head in heads:
            self.rules.clauses += [Clause(head, own_variables(head, body), self.file, line, text) for body in bodies]

    def disjunction(self) -> list[tuple[Literal, ...]]:
        out = self.conjunction()
        while self.maybe(";"):
            out += self.conjunction()
        return out

    def conjunction(self) -> list[tuple[Literal, ...]]:
        out: list[tuple[Literal, ...]] = [()]
        while True:
            alternatives = self.literal()
            out = [one + two for one in out for two in alternatives]
            if not self.maybe(","):
                return out

    def literal(self) -> list[tuple[Literal, ...]]:
        if self.maybe("!"):
            return [(self.atom()._replace(negated=True),)]
        back = self.at
        if self.tokens[self.at].kind == "name" and self.tokens[self.at + 1].text == "(":
            atom = self.atom()
            if self.peek() in _AFTER_LITERAL:
                if atom.relation == "contains" and len(atom.args) == 2:
                    return [(Compare("contains", *atom.args),)]
                return [(atom,)]
            self.at = back  # it was a functor in a comparison
        elif self.peek() == "(":
            try:
                self.at += 1
                inner = self.disjunction()
                self.take(")")
                if self.peek() in _AFTER_LITERAL:
                    return inner
            except RuleError:
                pass
            self.at = back  # it was a term in brackets
        left = self.term()
        op = self.take()
        if op not in _COMPARISONS:
            self.at -= 1
            raise self.fail("expected a comparison")
        return [(Compare(op, left, self.term()),)]

    def atom(self) -> Atom:
        name = self.name()
        self.take("(")
        return Atom(name, self.items(")"))

    # ---- terms

    def items(self, close: str) -> tuple[Term, ...]:
        out: list[Term] = []
        while not self.maybe(close):
            if out:
                self.take(",")
            out.append(self.term())
        return tuple(out)

    def term(self) -> Term:
        out, first = self.sum(), self.peek()
        while self.peek() in _WORD_OPERATORS:
            if self.peek() != first:
                raise self.fail("the checker wants brackets between different bit operators")
            out = Apply(self.take(), (out, self.sum()))
        return out

    def sum(self) -> Term:
        out = self.product()
        while self.peek() in ("+", "-"):
            out = Apply(self.take(), (out, self.product()))
        return out

    def product(self) -> Term:
        out = self.factor()
        while self.peek() in ("*", "/", "%"):
            out = Apply(self.take(), (out, self.factor()))
        return out

    def factor(self) -> Term:
        kind, text, _ = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            return Const(int(text))
        if kind == "text":
            self.at += 1
            return Const(re.sub(r"\\(.)", lambda m: _ESCAPE.get(m[1], m[1]), text[1:-1]))
        if self.maybe("-"):
            inner = self.factor()
            if isinstance(inner, Const) and isinstance(inner.value, int):
                return Const(-inner.value)
            return Apply("-", (Const(0), inner))
        if self.maybe("("):
            inner = self.term()
            self.take(")")
            return inner
        if self.maybe("["):
            return Record(self.items("]"))
        if self.maybe("$"):
            branch = Const(self.name())
            return Record((branch, Record(self.items(")") if self.maybe("(") else ())))
        name = self.name()
        if name == "nil":
            return Const(None)
        if name in _AGGREGATES and self.peek() != "(":
            target = None if self.peek() == ":" else self.term()
            self.take(":")
            self.take("{")
            bodies = self.disjunction()
            self.take("}")
            if len(bodies) != 1:
                raise self.fail("the checker does not know disjunctions inside aggregates")
            return Aggregate(name, target, bodies[0])
        if self.maybe("("):
            return Apply(name, self.items(")"))
        return Var(name)


def read_rules(files: Iterable[Path]) -> RuleSet:
    """The rules of these files and of all that they include, each file once."""
    rules = RuleSet()

    def read(file: Path) -> None:
        file = file.resolve()
        if file in rules.files:
            return
        rules.files.append(file)
        for path in _Reader(file, rules).includes():
            read(file.parent / path)

    for file in files:
        read(Path(file))
    for clause in rules.clauses:
        for atom in (clause.head, *atoms(clause.body)):
            if len(rules.relations.get(atom.relation, ())) != len(atom.args) or atom.relation not in rules.relations:
                raise RuleError(f"{clause.file}:{clause.line}: `{atom.relation}` is not declared like that")
    return rules
