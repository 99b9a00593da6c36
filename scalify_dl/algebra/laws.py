"""Laws of powers, exponentials, logarithms, maxima and comparisons: each gives the normal form of its result."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import partial, reduce
from math import gcd, isqrt, lcm

from scalify_dl.registry import registering

from .flagged import by_truths
from .form import MOST_FACTORS, Field, Form, Monomial, Number, Undecided
from .maxima import Meets, common_factor, order, reduced, sets_in, turned
from .quotients import multiplied_out, quotient
from .roots import rooted_factor

Within = Callable[[Field, int, Callable[[Form], Form]], Form | None]
WITHIN: dict[str, Within] = {}
within = registering(WITHIN)
"""Registers of what kind of elements a function is the same element of that function (`selecting.py`)."""
MOST_EXPONENT = 4096
"""Greatest exponent of a number that is computed."""
MOST_MEETS = 256
"""Most sets of minima that a maximum is followed through."""


def power(form: Form, exponent: Number) -> Form:
    """form^exponent: whole powers are multiplied out, of others what is known to be above zero is taken out.

    Needs: other than zero below exponent 0; at least zero where the exponent has an even denominator.
    """
    field = form.field
    exponent = Fraction(exponent)
    if exponent.denominator == 1 and exponent >= 0:
        if len(form.terms) == 1 and exponent > MOST_FACTORS:
            ((monomial, coefficient),) = form.terms.items()
            if coefficient == 1 and all(field.elements[number].kind == "exp" for number, _ in monomial):
                return _monomial_power(field, monomial, exponent)
        return form.whole_power(int(exponent))
    value = form.value
    if value is not None:
        return constant_power(field, value, exponent)
    whole = exponent.denominator == 1
    parts = quotient(form)
    if parts is not None and (whole or all(field.elements[number].nonnegative for number in parts[1])):
        below = tuple(sorted(parts[1].items()))
        return power(parts[0], exponent) * _monomial_power(field, below, exponent)
    if exponent < 0:
        field.need("nonzero", form)
    if not whole:
        field.need("nonnegative", form)
    factor = None if whole else rooted_factor(form)
    if factor is not None:
        return power(factor.base, factor.exponent * exponent) * power(factor.rest, exponent)
    squares = () if whole else _common_squares(form)
    if squares:
        inverse = Form(field, {tuple((number, -inner) for number, inner in squares): 1})
        result = power(form * inverse, exponent)
        for number, inner in squares:  # √(x²·y) = |x|·√y
            result = result * power(absolute(field.of(number)), inner * exponent)
        return result
    scale, shared, rest = form.content(positive=not whole)
    result = constant_power(field, scale, exponent) * _monomial_power(field, shared, exponent)
    if rest.terms == {(): 1}:
        return result
    if len(rest.terms) == 1:
        ((monomial, coefficient),) = rest.terms.items()
        if whole and coefficient == 1:
            flags = {field.elements[number].kind for number, _ in monomial}
            if not flags & {"flag", "equals"}:
                return result * _monomial_power(field, monomial, exponent)
        elif len(monomial) == 1 and coefficient == 1 and field.elements[monomial[0][0]].kind == "power":
            number, inner = monomial[0]  # (qᵃ)ᵇ of a root, which is at least zero
            if Fraction(inner).denominator % 2 == 0:
                return result * _monomial_power(field, ((number, inner),), exponent)
    base = field.element("power", rest, positive=rest.is_positive(), nonnegative=rest.is_nonnegative())
    return result * field.of(base, exponent)


def _common_squares(form: Form) -> Monomial:
    """Even powers that all terms have in common, of what is not known to be at least zero; negative ones, too."""
    field = form.field
    monomials = [dict(monomial) for monomial in form.terms]
    found: dict[int, Number] = {}
    for number in {number for monomial in monomials for number in monomial}:
        element = field.elements[number]
        if element.kind in ("flag", "equals", "root", "power") or element.positive:
            continue
        exponents = [monomial.get(number, 0) for monomial in monomials]
        if all(exponent == int(exponent) for exponent in exponents) and (even := 2 * (int(min(exponents)) // 2)):
            found[number] = even
    return tuple(sorted(found.items()))


def _inside(field: Field, number: int, exponent: Fraction) -> Form | None:
    """max(min(a, b), …)^r of what is at least zero: the same of a^r, b^r, …, below r = 0 with max and min exchanged.

    Needs each of them to be other than zero below r = 0.
    """
    meets: Meets = field.elements[number].data  # type: ignore[assignment]
    if not all(form.is_nonnegative() for meet in meets for form in meet):
        return None
    inner, outer, sign = (minimum, maximum, 1) if exponent > 0 else (maximum, minimum, -1)
    one = Fraction(sign, exponent.denominator)
    found = reduce(outer, (reduce(inner, (power(form, one) for form in meet)) for meet in meets))
    return found.whole_power(abs(exponent.numerator))


def _monomial_power(field: Field, monomial: Monomial, exponent: Fraction) -> Form:
    result = field.one
    for number, inner in monomial:
        total = inner * exponent
        element = field.elements[number]
        whole = total == int(total) and total > 0
        inside = _inside(field, number, Fraction(total)) if element.kind == "maximum" and not whole else None
        if inside is not None:
            result = result * inside
        elif element.kind == "power" and whole:
            assert isinstance(element.data, Form)
            result = result * element.data.whole_power(int(total))
        elif element.kind == "root":
            result = result * constant_power(field, element.data, total)  # type: ignore[arg-type]
        else:
            result = result * field.of(number, total)
    return result


def constant_power(field: Field, value: Number, exponent: Fraction) -> Form:
    """A number to a rational power, as a rational times roots of primes."""
    if value == 0:
        if exponent > 0:
            return field.zero
        raise Undecided("a division by zero")
    if abs(exponent) > MOST_EXPONENT and abs(value) != 1:
        raise Undecided(f"a number to the power of {float(exponent)}")
    if exponent.denominator == 1:
        return field.constant(Fraction(value) ** int(exponent))
    if value < 0:
        raise Undecided(f"a root of {value}")
    result = field.one
    fraction = Fraction(value)
    for part, sign in ((fraction.numerator, 1), (fraction.denominator, -1)):
        for prime, count in _factors(part).items():
            total = exponent * count * sign
            whole = total.__floor__()
            root = field.of(field.element("root", prime, positive=True), total - whole) if total != whole else field.one
            result = result * root.scaled(Fraction(prime) ** whole)
    return result


def _factors(number: int) -> dict[int, int]:
    """Its prime factors; what is left after small ones counts as one."""
    found: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number and divisor < 2000:
        while number % divisor == 0:
            found[divisor] = found.get(divisor, 0) + 1
            number //= divisor
        divisor += 1
    if number > 1:
        root = isqrt(number)
        if root * root == number:
            found[root] = found.get(root, 0) + 2
        else:
            found[number] = found.get(number, 0) + 1
    return found


def divide(left: Form, right: Form) -> Form:
    """A quotient. Needs the divisor to be other than zero."""
    return left * power(right, -1)


def exponential(form: Form) -> Form:
    """exp of a sum is the product of exps of its terms; exp(c·log q) is qᶜ."""
    field = form.field
    chosen = by_truths(form, exponential) if field.huge else None
    if chosen is not None:
        return chosen
    result = field.one
    for monomial, coefficient in form.terms.items():
        if len(monomial) == 1 and monomial[0][1] == 1 and field.elements[monomial[0][0]].kind == "log":
            base = field.elements[monomial[0][0]].data
            assert isinstance(base, Form)
            result = result * power(base, coefficient)
            continue
        chosen = _within(field, monomial, partial(_exponential_of, coefficient))
        if chosen is not None:
            result = result * chosen
            continue
        result = result * field.of(field.element("exp", monomial, positive=True), coefficient)
    return result


def _exponential_of(coefficient: Number, form: Form) -> Form:
    return exponential(form.scaled(coefficient))


def _within(field: Field, monomial: Monomial, function: Callable[[Form], Form]) -> Form | None:
    """The function of an element, if it is one of that function."""
    if len(monomial) != 1 or monomial[0][1] != 1:
        return None
    known = WITHIN.get(field.elements[monomial[0][0]].kind)
    return known(field, monomial[0][0], function) if known else None


def logarithm(form: Form) -> Form:
    """log of a product of what is above zero is the sum of logs. Needs the form to be above zero."""
    field = form.field
    value = form.value
    parts = quotient(form)
    if parts is not None and all(field.elements[number].positive for number in parts[1]):
        result = logarithm(parts[0])
        for number, exponent in parts[1].items():
            result = result + logarithm(field.elements[number].data).scaled(exponent)  # type: ignore[arg-type]
        return result
    if len(form.terms) == 1:
        ((monomial, coefficient),) = form.terms.items()
        chosen = _within(field, monomial, logarithm) if coefficient > 0 else None
        if chosen is not None:
            return _constant_log(field, Fraction(coefficient)) + chosen
    field.need("positive", form)
    if value is not None:
        return _constant_log(field, Fraction(value))
    scale, shared, rest = form.content(positive=True)
    result = _constant_log(field, Fraction(scale))
    for number, exponent in shared:
        element = field.elements[number]
        if element.kind == "exp":
            inner = Form(field, {element.data: 1})  # type: ignore[dict-item]
        elif element.kind == "power":
            inner = logarithm(element.data)  # type: ignore[arg-type]
        else:
            inner = field.of(field.element("log", field.of(number)))
        result = result + inner.scaled(exponent)
    if rest.terms == {(): 1}:
        return result
    return result + field.of(field.element("log", rest))


def _constant_log(field: Field, value: Fraction) -> Form:
    result = field.zero
    for part, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, count in _factors(part).items():
            log = field.of(field.element("log", field.constant(prime), positive=True))
            result = result + log.scaled(count * sign)
    return result


def function(field: Field, name: str, arguments: tuple[Hashable, ...], *, positive: bool = False) -> Form:
    """A function that no law is known of: equal arguments give equal values."""
    return field.of(field.element("function", (name, *arguments), positive=positive))


def absolute(form: Form) -> Form:
    """|x|."""
    if form.is_nonnegative():
        return form
    return -form if (-form).is_nonnegative() else maximum(form, -form)


def comparable(form: Form) -> Form:
    """The simplest form known that is above, at and below zero where this one is."""
    if form.value is not None:
        return form
    field = form.field
    form = multiplied_out(form)
    parts = quotient(form)
    if parts is not None and all(field.elements[number].positive for number in parts[1]):
        form = parts[0]
    if form.value is not None:
        return form
    _, _, form = form.content(positive=True)
    if len(form.terms) == 2 and "exp" in (kinds := _kinds(form)) and "maximum" not in kinds:
        sides = [Form(field, {monomial: c if c > 0 else -c}) for monomial, c in form.terms.items()]
        first, second = form.terms.values()
        if (first > 0) != (second > 0) and all(side.is_positive() for side in sides):
            left, right = sides if first > 0 else reversed(sides)
            return comparable(logarithm(left) - logarithm(right))
    return form


def _kinds(form: Form) -> set[str]:
    return {form.field.elements[number].kind for monomial in form.terms for number, _ in monomial}


# ---- maxima and minima: a maximum of minima (disjunctive normal form of a distributive lattice) ----
def sets_of(form: Form) -> Meets:
    """The sets of minima whose maximum a form is."""
    field = form.field
    if len(form.terms) == 1:
        ((monomial, coefficient),) = form.terms.items()
        meets = sets_in(field, monomial)
        if meets is not None:
            if coefficient > 0:
                return frozenset(frozenset(f.scaled(coefficient) for f in meet) for meet in meets)
            # c·max(min …) = min(max(c·…)) for c < 0: distributed
            result: Meets = frozenset({frozenset()})
            for meet in meets:
                grown = {r | {f.scaled(coefficient)} for r in result for f in meet}
                if len(grown) > MOST_MEETS:
                    raise Undecided("a maximum of many minima")
                result = frozenset(grown)
            return result
    return frozenset({frozenset({form})})


def of_sets(field: Field, meets: Meets) -> Form:
    """The normal form: a term and a factor of all are outside; constants of one set, and sets that others make
    superfluous, are gone."""
    forms = [form for meet in meets for form in meet]
    shared = dict(set.intersection(*(set(form.terms.items()) for form in forms)))
    if shared and len(meets) + len(forms) > 2:
        common = Form(field, shared)
        return common + of_sets(field, frozenset(frozenset(f - common for f in meet) for meet in meets))
    if len(meets) + len(forms) > 2 and all(_is_exponential(form) for form in forms):  # exp is monotone
        return exponential(of_sets(field, frozenset(frozenset(map(logarithm, meet)) for meet in meets)))
    factor = common_factor(field, forms)
    if factor:
        inverse = Form(field, {tuple((number, -exponent) for number, exponent in factor): 1})
        return Form(field, {factor: 1}) * of_sets(
            field, frozenset(frozenset(form * inverse for form in meet) for meet in meets)
        )
    left = reduced(field, meets)
    if len(left) > MOST_MEETS:
        raise Undecided("a maximum of many minima")
    if len(left) == 1:
        (meet,) = left
        if len(meet) == 1:
            (form,) = meet
            return form
    coefficients = [Fraction(c) for meet in left for form in meet for c in form.terms.values()]
    scale = Fraction(gcd(*(c.numerator for c in coefficients)), lcm(*(c.denominator for c in coefficients)))
    normal = frozenset(frozenset(form.scaled(1 / scale) for form in meet) for meet in left)
    nonnegative = any(all(form.is_nonnegative() for form in meet) for meet in normal)
    if not nonnegative:
        minus = turned(field, normal)
        if minus is not None and order(minus) < order(normal):
            return field.of(field.element("maximum", minus)).scaled(-scale)
    positive = any(all(form.is_positive() for form in meet) for meet in normal)
    return field.of(field.element("maximum", normal, positive=positive, nonnegative=nonnegative)).scaled(scale)


def _is_exponential(form: Form) -> bool:
    """Whether it is a number above zero times an exp; at least one exp."""
    if len(form.terms) != 1:
        return False
    ((monomial, coefficient),) = form.terms.items()
    kinds = {form.field.elements[number].kind for number, _ in monomial}
    return coefficient > 0 and kinds <= {"exp"} and (bool(kinds) or coefficient == 1)


def maximum_and_rest(form: Form) -> tuple[Meets, Form, Number] | None:
    """A form that is a number times one maximum, and something without maxima: the maximum's sets, that, the number."""
    elements = form.field.elements
    found = [m for m in form.terms if any(elements[number].kind == "maximum" for number, _ in m)]
    meets = sets_in(form.field, found[0]) if len(found) == 1 else None
    if meets is None:
        return None
    return meets, form - Form(form.field, {found[0]: form.terms[found[0]]}), form.terms[found[0]]


def maximum(left: Form, right: Form) -> Form:
    """The greater one."""
    return left if left == right else of_sets(left.field, sets_of(left) | sets_of(right))


def minimum(left: Form, right: Form) -> Form:
    """The lesser one."""
    if left == right:
        return left
    mine, others = sets_of(left), sets_of(right)
    if len(mine) * len(others) > MOST_MEETS:
        raise Undecided("a maximum of many minima")
    return of_sets(left.field, frozenset(a | b for a in mine for b in others))


def most(forms: list[Form]) -> Form:
    """The greatest of many."""
    field = forms[0].field
    return of_sets(field, reduce(frozenset.union, (sets_of(form) for form in forms)))


def least(forms: list[Form]) -> Form:
    """The least of many."""
    sets = [sets_of(form) for form in forms]
    if any(len(meets) > 1 for meets in sets):
        return reduce(minimum, forms)
    return of_sets(forms[0].field, frozenset({frozenset().union(*(meet for meets in sets for meet in meets))}))
