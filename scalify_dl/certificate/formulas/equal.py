"""Whether two forms are one: their difference is zero, in each case of signs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from .forms import Atoms, Form, Sum, Unknown
from .permuted import each_once

FEW_TERMS = 24
"""Terms of a sum that is multiplied out before its cases are looked at."""
SPLITS = 7
"""How many signs are supposed, one inside another."""

UNKNOWNS = ("input", "chosen", "order", "placed")
"""Kinds of atoms that are made of no others."""
Signs = dict[Sum, int]
"""What is known in a case: 2 or −2 for what is above or below zero, 0 for what is zero, 1 or −1 for what is not below
or not above zero."""


def equal(atoms: Atoms, left: Form, right: Form) -> bool:
    """Whether they are worth the same for all inputs for which what was needed is so."""
    needs = dict(atoms.needs)
    atoms.settled = frozenset(_not_zero(atoms))
    try:
        return _zero(atoms, each_once(left - right), {}, SPLITS)
    except (Unknown, RecursionError):
        return False
    finally:
        atoms.needs, atoms.settled = needs, frozenset()


def _not_zero(atoms: Atoms) -> Iterator[Sum]:
    """Sums that are needed to be other than zero."""
    for what, key in atoms.needs:
        if what != "nonnegative":
            yield key
            if len(key) == 1:  # nor are the factors of a product
                yield from (data for kind, data in (atoms.kinds[atom] for atom, _ in key[0][0]) if kind == "sum")


def _zero(atoms: Atoms, form: Form, known: Signs, splits: int) -> bool:
    form = _simpler(atoms, form, known)
    parts = _apart(atoms, form)
    if len(parts) > 1 and all(_zero(atoms, part, known, splits) for part in parts):
        return True
    if len(form.terms) <= FEW_TERMS or splits == 0 or not _cases(atoms, form):
        form = numerator(form)
    if not form.terms:
        return True
    for kind, data in atoms.inside(form, set()):
        if kind == "chosen":
            values = atoms.choices[data[0]]
            left = splits - (values - 1).bit_length()
            return left >= 0 and all(_zero(atoms, _with(atoms, form, data[0], n), known, left) for n in range(values))
    asked = _asked(atoms, form, known)
    if asked is None or splits == 0:
        return False
    p, flagged = asked
    cases = [2, -2] if flagged else [1, -1]
    if flagged and not _zero(atoms, *_where_zero(atoms, form, p, known), splits - 1):
        return False
    return all(
        _zero(atoms, form, {**known, p.key: sign, (-p).key: -sign}, splits - 1)
        for sign in cases
        if not _contradicted(atoms, p if sign > 0 else -p, abs(sign), known)
    )


def _apart(atoms: Atoms, form: Form) -> list[Form]:
    """Sums of terms of which no two have an unknown in common, what has none shared out among them alike: the form is
    their sum, so it is zero where each of them is."""
    groups: list[tuple[set[Any], Form]] = []
    alone, known = atoms.number(0), dict[int, set[Any]]()

    def found(atom: int) -> set[Any]:
        if atom not in known:
            inner = atoms.inside(Form(atoms, {((atom, Fraction(1)),): Fraction(1)}), set())
            known[atom] = {data[0] if kind == "chosen" else data for kind, data in inner if kind in UNKNOWNS}
        return known[atom]

    for product, factor in form.terms.items():
        term = Form(atoms, {product: factor})
        names: set[Any] = set().union(*(found(atom) for atom, _ in product))
        if not names:
            alone = alone + term
            continue
        kept = []
        for group in groups:
            if group[0].isdisjoint(names):
                kept.append(group)
            else:
                names |= group[0]
                term = term + group[1]
        groups = [*kept, (names, term)]
    share = alone.times(Fraction(1, len(groups))) if groups else alone
    return [part + share for _, part in groups]


def _contradicted(atoms: Atoms, p: Form, sign: int, known: Signs) -> bool:
    """Whether it cannot be above zero (for 2; for 1: at least zero), by what else is known: with another that is above
    zero it adds up to what is not."""
    for key, other in known.items():
        if other >= 0 and (total := p + atoms.of(key)).terms:
            if total.value is not None and total.value < 0:
                return True
            found = known.get(atoms.compared(total).key, 2)
            if found == -2 or (found <= 0 and max(sign, other) == 2):
                return True
    return False


def _cases(atoms: Atoms, form: Form) -> bool:
    """Whether it depends on truths, so that in a case it has fewer terms."""
    return any(kind in ("truth", "chosen") for kind, _ in atoms.inside(form, set()))


def _with(atoms: Atoms, form: Form, unknown: Any, value: int) -> Form:
    """The form where an unknown integer has its n-th value."""

    def put(kind: str, data: Any) -> Form | None:
        return atoms.number(int(data[1] == value)) if kind == "chosen" and data[0] == unknown else None

    return atoms.rebuilt(form, put)


def _asked(atoms: Atoms, form: Form, known: Signs) -> tuple[Form, bool] | None:
    """A form whose sign decides a truth (where zero is a case of its own) or which member of a maximum is it."""
    for kind, data in atoms.inside(form, set()):
        if kind == "truth":
            return atoms.of(data), True
        if kind == "most":
            first, second, *_ = (atoms.of(key) for key in sorted(data))
            p = atoms.compared(first - second)
            if p.key not in known:
                return p, p.key in _truths(atoms, form)
    return None


def _truths(atoms: Atoms, form: Form) -> set[Sum]:
    found = {data for kind, data in atoms.inside(form, set()) if kind == "truth"}
    return {key for data in found for key in (data, (-atoms.of(data)).key)}


def _where_zero(atoms: Atoms, form: Form, p: Form, known: Signs) -> tuple[Form, Signs]:
    """The form where p is zero: an unknown that stands in p by itself is what makes it so."""
    here = {**known, p.key: 0, (-p).key: 0}
    for product, factor in p.terms.items():
        if len(product) != 1 or product[0][1] != 1:
            continue
        kind, data = atoms.kinds[product[0][0]]
        rest = (p - Form(atoms, {product: factor})).times(-1 / factor)
        if kind == "input" and (kind, data) not in {*atoms.inside(rest, set())}:
            unknown = data

            def put(kind: str, data: Any, unknown: Any = unknown, rest: Form = rest) -> Form | None:
                return rest if (kind, data) == ("input", unknown) else None

            return atoms.rebuilt(_simpler(atoms, form, here), put), {}
    return form, here


def _simpler(atoms: Atoms, form: Form, known: Signs) -> Form:
    """The form without truths and members of maxima that are decided."""
    if not known:
        return form

    def changed(kind: str, data: Any) -> Form | None:
        if kind == "truth" and known.get(data, 1) != 1:
            return atoms.number(int(known[data] > 0))
        if kind == "most":
            members = [atoms.of(key) for key in sorted(data)]
            kept = list(members)
            for a in members:
                for b in kept:
                    if b is not a and a in kept and known.get(atoms.compared(b - a).key, -1) >= 0:
                        kept.remove(a)
                        break
            if len(kept) < len(members):
                return atoms.most([atoms.rebuilt(member, changed) for member in kept])
        return None

    for _ in range(4):
        before, form = form, atoms.rebuilt(form, changed)
        if form.key == before.key:
            break
    return form


def numerator(form: Form) -> Form:
    """The form times all that it is divided by."""
    for _ in range(12):
        lowest: dict[int, Fraction] = {}
        for product in form.terms:
            for atom, exponent in product:
                if exponent < 0 and form.atoms.kinds[atom][0] != "exp":
                    lowest[atom] = min(lowest.get(atom, exponent), exponent)
        if not lowest:
            break
        form = form * Form(form.atoms, {tuple(sorted((a, -e) for a, e in lowest.items())): Fraction(1)})
    return form
