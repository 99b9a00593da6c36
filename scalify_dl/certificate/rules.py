"""The checker's own reader of rule files: the part of Soufflé's dialect that the shipped rules are written in.

Anything else (components, macros, functors of the host, eqrel, subsumption) is refused: a checker that guesses is none.
Disjunctions become several clauses with the same place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    names_in,
    own_variables,
)

_TOKEN = re.compile(
    r"""(?:[ \t\r]|//[^\n]*)*(\n|/\*.*?\*/|\#include[ \t]*"[^"\n]*"|"(?:[^"\\\n]|\\.)*"|\d+\b|[A-Za-z_?][\w?]*"""
    r"""|\.(?:decl|input|output|printsize|type|plan|pragma)\b|:-|!=|<=|>=|<:|.)""",
    re.DOTALL | re.ASCII,
)
_ESCAPE = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_AFTER_LITERAL = frozenset({",", ";", ".", ")", "}"})
_BINDS = {"bor": 1, "bxor": 2, "band": 3, "bshl": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}


class _Reader:
    """Recursive descent over the words of one file."""

    def __init__(self, file: Path, text: str, rules: RuleSet) -> None:
        self.file = str(file)
        self.rules = rules
        self.words: list[str] = []
        self.lines: list[int] = []
        self.at = 0
        line = 1
        for word in _TOKEN.findall(text + "\n"):
            if word[0] == "\n" or word.startswith("/*"):
                line += word.count("\n")
            else:
                self.words.append(word)
                self.lines.append(line)
        self.words.append("")
        self.lines.append(line)

    def fail(self, expected: str) -> RuleError:
        return RuleError(f"{self.file}:{self.lines[self.at]}: expected {expected}, found {self.words[self.at]!r}")

    def take(self, word: str) -> None:
        if self.words[self.at] != word:
            raise self.fail(repr(word))
        self.at += 1

    def maybe(self, word: str) -> bool:
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def word(self) -> str:
        self.at += 1
        if not self.words[self.at - 1]:
            raise self.fail("more")
        return self.words[self.at - 1]

    def name(self) -> str:
        word = self.words[self.at]
        if not (word[:1].isalpha() or word[:1] in ("_", "?")) or not word.isascii():
            raise self.fail("a name")
        self.at += 1
        return word

    def names(self) -> list[str]:
        out = [self.name()]
        while self.maybe(","):
            out.append(self.name())
        return out

    def until(self, close: str) -> list[str]:
        start = self.at
        while self.word() != close:
            pass
        return self.words[start : self.at - 1]

    # ---- a file

    def includes(self) -> Iterator[str]:
        """Read the file; yields the paths that it includes, which are to be read before going on."""
        while word := self.words[self.at]:
            if word.startswith("#include"):
                self.at += 1
                yield word.split('"')[1]
            elif word[0] == "." and len(word) > 1:
                self.at += 1
                self.directive(word)
            else:
                self.clause()

    def directive(self, word: str) -> None:
        if word == ".decl":
            self.declaration()
        elif word in (".input", ".output", ".printsize"):
            names = self.names()
            given = self.until(")") if self.maybe("(") else []
            if word == ".input" and given and (given[:2] != ["filename", "="] or len(given) != 3):
                raise self.fail("no parameter of .input but filename")
            if word == ".input" and any(self.rules.declared.get(name) != self.file for name in names):
                raise self.fail("an .input in the file that declares the relation")
            if word == ".input":
                self.rules.inputs |= {name: given[2].strip('"') if given else f"{name}.facts" for name in names}
        elif word == ".pragma":
            while self.words[self.at].startswith('"'):
                self.at += 1
        elif word == ".type":
            self.name()
            if not self.maybe("<:"):
                self.take("=")
            if self.maybe("["):
                self.until("]")
                return
            more = True
            while more:
                self.name()
                if self.maybe("{"):
                    self.until("}")
                more = self.maybe("|")
        else:
            raise self.fail(f"no {word}")

    def declaration(self) -> None:
        names = self.names()
        self.take("(")
        types: dict[str, str] = {}
        while not self.maybe(")"):
            attribute = self.name()
            self.take(":")
            types[attribute] = self.name()
            self.maybe(",")
        for name in names:
            if name in self.rules.relations:
                raise self.fail(f"no second declaration of {name}")
        self.rules.relations |= dict.fromkeys(names, tuple(types.values()))
        self.rules.declared |= dict.fromkeys(names, self.file)
        if self.maybe("choice"):
            self.take("-")
            self.take("domain")
            keys, more = [], True
            while more:
                if self.maybe("("):
                    key = self.names()
                    self.take(")")
                else:
                    key = [self.name()]
                keys.append(tuple([list(types).index(name) for name in key]))
                more = self.maybe(",")
            self.rules.choices |= dict.fromkeys(names, keys)

    # ---- clauses

    def clause(self) -> None:
        start, line = self.at, self.lines[self.at]
        heads = [self.atom()]
        while self.maybe(","):
            heads.append(self.atom())
        bodies = self.disjunction() if self.maybe(":-") else [()]
        self.take(".")
        words = self.words[start : self.at]
        text = " ".join(words)
        for head in heads:
            for body in bodies:
                if "{" in words:
                    body = own_variables(body, names_in((head, body), aggregates=False))
                self.rules.clauses.append(Clause(head, body, self.file, line, text))

    def disjunction(self) -> list[tuple[Literal, ...]]:
        out = self.conjunction()
        while self.maybe(";"):
            out += self.conjunction()
        return out

    def conjunction(self) -> list[tuple[Literal, ...]]:
        out: list[tuple[Literal, ...]] = self.literal()
        while self.maybe(","):
            alternatives = self.literal()
            out = [one + two for one in out for two in alternatives]
        return out

    def literal(self) -> list[tuple[Literal, ...]]:
        if self.maybe("!"):
            return [(self.atom()._replace(negated=True),)]
        back = self.at
        if self.words[back + 1] == "(" and self.words[back] != "(":
            atom = self.atom()
            if self.words[self.at] in _AFTER_LITERAL:
                if atom.relation == "contains" and len(atom.args) == 2:
                    return [(Compare("contains", *atom.args),)]
                return [(atom,)]
            self.at = back  # it was a functor in a comparison
        elif self.maybe("("):
            try:
                inner = self.disjunction()
                self.take(")")
                if self.words[self.at] in _AFTER_LITERAL:
                    return inner
            except RuleError:
                pass
            self.at = back  # it was a term in brackets
        left = self.term()
        op = self.words[self.at]
        if op not in _COMPARISONS:
            raise self.fail("a comparison")
        self.at += 1
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

    def term(self, least: int = 0) -> Term:
        out = self.factor()
        while (binds := _BINDS.get(self.words[self.at], 0)) > least:
            out = Apply(self.word(), (out, self.term(binds)))
        return out

    def factor(self) -> Term:
        word = self.words[self.at]
        if word.isascii() and word.isdecimal():
            self.at += 1
            return Const(int(word))
        if word[:1] == '"' and len(word) > 1:
            self.at += 1
            return Const(re.sub(r"\\(.)", lambda m: _ESCAPE.get(m[1], m[1]), word[1:-1]))
        if self.maybe("-"):
            inner = self.factor()
            number = inner.value if isinstance(inner, Const) else None
            return Const(-number) if isinstance(number, int) else Apply("-", (Const(0), inner))
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
        if self.maybe("("):
            return Apply(name, self.items(")"))
        if name in ("count", "sum", "min", "max"):
            target = None if self.words[self.at] == ":" else self.term()
            self.take(":")
            self.take("{")
            bodies = self.disjunction()
            if len(bodies) != 1:
                raise self.fail("no disjunction inside an aggregate")
            self.take("}")
            return Aggregate(name, target, bodies[0])
        return Const(None) if name == "nil" else Var(name)


def read_rules(files: Iterable[Path]) -> RuleSet:
    """The rules of these files and of all that they include, each file once."""
    rules = RuleSet()

    def read(file: Path) -> None:
        file = file.resolve()
        if file in rules.files:
            return
        data = file.read_bytes()  # once: what is hashed is what is read
        rules.files[file] = hashlib.sha256(data).hexdigest()
        for path in _Reader(file, data.decode("utf-8"), rules).includes():
            read(file.parent / path)

    for file in files:
        read(Path(file))
    for clause in rules.clauses:
        for atom in (clause.head, *atoms(clause.body)):
            if len(rules.relations.get(atom.relation, ())) != len(atom.args) or atom.relation not in rules.relations:
                raise RuleError(f"{clause.file}:{clause.line}: `{atom.relation}` is not declared like that")
    return rules
