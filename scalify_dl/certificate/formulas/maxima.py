"""What a greatest one is of, and what its members have in common: r·max(x, y) = max(r·x, r·y) for r ≥ 0."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .forms import Atoms, Form, Product


def grows(atoms: Atoms, form: Form) -> bool:
    """Whether it is a number above zero times exps."""
    if len(form.terms) != 1:
        return False
    ((product, factor),) = form.terms.items()
    return factor > 0 and bool(product) and all(atoms.kinds[atom][0] == "exp" for atom, _ in product)


def members(atoms: Atoms, form: Form) -> list[Form]:
    """What a form is the greatest of: itself, or the members of one that stands beside what is not below zero."""
    if len(form.terms) == 1:
        ((product, factor),) = form.terms.items()
        greatest = [atom for atom, exponent in product if exponent == 1 and atoms.kinds[atom][0] == "most"]
        others = tuple(power for power in product if power[0] not in greatest)
        if factor > 0 and len(greatest) == 1 and all(_stands_outside(atoms, *power) for power in others):
            beside = atoms.of(((others, factor),))
            return [atoms.of(key) * beside for key in atoms.kinds[greatest[0]][1]]
    return [form]


def shared(atoms: Atoms, forms: list[Form]) -> Product:
    """What is not below zero and a factor of every term."""
    products = [dict(product) for form in forms for product in form.terms]
    least = {
        atom: min(product[atom] for product in products)
        for atom in set.intersection(*(set(product) for product in products))
    }
    return tuple(sorted((atom, e) for atom, e in least.items() if _stands_outside(atoms, atom, e)))


def _stands_outside(atoms: Atoms, atom: int, exponent: Fraction) -> bool:
    return atoms.divides(atom) and atoms.signs(((atom, exponent),))[1]
