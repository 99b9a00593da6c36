"""One small program for each feature that people use, with what Soufflé's documentation says it gives."""

from __future__ import annotations

from typing import Any

import pytest

from scalify_dl.pysouffle import Program

PROGRAMS: dict[str, tuple[str, dict[str, list[tuple[Any, ...]]]]] = {
    "component params": (
        """.comp Graph<T> { .decl edge(a:T,b:T) .decl path(a:T,b:T) path(a,b):-edge(a,b).
path(a,c):-path(a,b),edge(b,c). }
.init g = Graph<symbol>
.init h = Graph<number>
g.edge("a","b"). g.edge("b","c"). h.edge(1,2).
.output g.path .output h.path
""",
        {"g.path": [("a", "b"), ("a", "c"), ("b", "c")], "h.path": [(1, 2)]},
    ),
    "override": (
        """.comp Base { .decl r(x:number) overridable  r(1). .decl s(x:number) s(x) :- r(x). }
.comp Sub : Base { .override r  r(2). }
.init a = Base .init b = Sub
.output a.s .output b.s
""",
        {"a.s": [(1,)], "b.s": [(2,)]},
    ),
    "nested comp": (
        """.comp A { .comp B { .decl q(x:number) q(7). } .init b = B .decl r(x:number) r(x) :- b.q(x). }
.init a = A
.output a.r .output a.b.q
""",
        {"a.r": [(7,)], "a.b.q": [(7,)]},
    ),
    "comp type param inheritance": (
        """.comp Fam<T> { .decl m(x:T) }
.comp K<T> : Fam<T> { m(x) :- in(x). .decl in(x:T) }
.init k = K<symbol>
k.in("z").
.output k.m
""",
        {"k.m": [("z",)]},
    ),
    "component as param": (
        """.comp F { .decl v(x:number) v(1). }
.comp G { .decl v(x:number) v(2). }
.comp Use<C> { .init c = C .decl o(x:number) o(x*10) :- c.v(x). }
.init u = Use<F> .init w = Use<G>
.output u.o .output w.o
""",
        {"u.o": [(10,)], "w.o": [(20,)]},
    ),
    "adt expr eval": (
        """.type E = Num {v:number} | Add {l:E, r:E} | Neg {e:E}
.decl e(x:E)
.decl val(x:E, v:number)
e($Add($Num(3),$Neg($Num(5)))).
e(a) :- e($Add(a,_)). e(b) :- e($Add(_,b)). e(a) :- e($Neg(a)).
val($Num(v),v) :- e($Num(v)).
val($Add(a,b),x+y) :- e($Add(a,b)), val(a,x), val(b,y).
val($Neg(a),-x) :- e($Neg(a)), val(a,x).
.decl o(v:number) o(v) :- e(x), val(x,v), x = $Add(_,_).
.output o
""",
        {"o": [(-2,)]},
    ),
    "adt enum": (
        """.type Color = Red {} | Green {} | Blue {}
.decl c(x:Color, n:number)
c($Red(),1). c($Blue(),2).
.decl o(n:number) o(n) :- c($Blue(),n).
.output o
""",
        {"o": [(2,)]},
    ),
    "record list": (
        """.type L = [h:number, t:L]
.decl l(x:L) l([1,[2,[3,nil]]]).
.decl suf(x:L) suf(x) :- l(x). suf(t) :- suf([_,t]), t != nil.
.decl len(x:L,n:number) len(nil,0). len(x,n+1) :- suf(x), x=[_,t], len(t,n).
.decl o(n:number) o(n) :- l(x), len(x,n).
.output o
""",
        {"o": [(3,)]},
    ),
    "subsumption shortest": (
        """.decl e(a:symbol,b:symbol,w:number) e("a","b",1). e("b","c",1). e("a","c",5). e("c","a",1).
.decl d(a:symbol,b:symbol,w:number)
d(a,b,w) :- e(a,b,w). d(a,c,x+y) :- d(a,b,x), e(b,c,y).
d(a,b,x) <= d(a,b,y) :- y <= x.
.output d
""",
        {"d": [("a", "a", 3), ("a", "b", 1), ("a", "c", 2), ("b", "a", 2), ("b", "b", 3), ("b", "c", 1),
               ("c", "a", 1), ("c", "b", 2), ("c", "c", 3)]},
    ),
    "choice domain": (
        """.decl e(a:number,b:number) e(1,2). e(1,3). e(2,3).
.decl t(a:number,b:number) choice-domain b
t(a,b) :- e(a,b).
.decl n(c:number) n(c) :- c = count : { t(_,_) }.
.output n
""",
        {"n": [(2,)]},
    ),
    "choice domain multi": (
        """.decl s(a:number) s(1). s(2). s(3).
.decl m(a:number,b:number) choice-domain a, b
m(a,b) :- s(a), s(b).
.decl n(c:number) n(count : { m(_,_) }).
.decl bad(a:number) bad(a) :- m(a,b), m(a,c), b != c.
.output bad
""",
        {"bad": []},
    ),
    "aggregates": (
        """.decl v(g:symbol,x:number) v("a",1). v("a",5). v("b",7).
.decl o(g:symbol,c:number,s:number,mn:number,mx:number)
o(g,c,s,mn,mx) :- v(g,_), c = count : v(g,_), s = sum x : v(g,x), mn = min x : v(g,x), mx = max x : v(g,x).
.output o
""",
        {"o": [("a", 2, 6, 1, 5), ("b", 1, 7, 7, 7)]},
    ),
    "mean float": (
        """.decl v(x:float) v(1.0). v(2.0). v(6.0).
.decl o(m:float) o(m) :- m = mean x : { v(x) }.
.output o
""",
        {"o": [(3.0,)]},
    ),
    "sum empty, min empty": (
        """.decl v(x:number)
.decl a(s:number) a(s) :- s = sum x : v(x).
.decl b(s:number) b(s) :- s = min x : v(x).
.decl c(s:number) c(s) :- s = count : v(_).
.output a .output b .output c
""",
        {"a": [(0,)], "b": [], "c": [(0,)]},
    ),
    "witness": (
        """.decl h(p:symbol,x:number) h("u",3). h("v",9).
.decl o(p:symbol,m:number) o(p,m) :- m = max x : { h(p,x) }.
.output o
""",
        {"o": [("v", 9)]},
    ),
    "aggregate with outer": (
        """.decl e(a:number,b:number) e(1,2). e(1,3). e(2,3).
.decl n(a:number) n(1). n(2). n(3).
.decl deg(a:number,d:number) deg(a,d) :- n(a), d = count : { e(a,_) }.
.output deg
""",
        {"deg": [(1, 2), (2, 1), (3, 0)]},
    ),
    "eqrel": (
        """.decl q(a:number,b:number) eqrel
q(1,2). q(2,3). q(5,6).
.decl o(a:number,b:number) o(a,b) :- q(a,b), a < b.
.output o
""",
        {"o": [(1, 2), (1, 3), (2, 3), (5, 6)]},
    ),
    "negation strata": (
        """.decl n(x:number) n(1). n(2). n(3). n(4).
.decl e(a:number,b:number) e(1,2). e(2,1). e(3,4).
.decl r(x:number) r(1). r(y) :- r(x), e(x,y).
.decl u(x:number) u(x) :- n(x), !r(x).
.output u
""",
        {"u": [(3,), (4,)]},
    ),
    "magic": (
        """.pragma "magic-transform" "*"
.decl e(a:number,b:number) e(1,2). e(2,3). e(4,5).
.decl p(a:number,b:number) p(a,b) :- e(a,b). p(a,c) :- p(a,b), e(b,c).
.decl q(b:number) q(b) :- p(1,b).
.output q
""",
        {"q": [(2,), (3,)]},
    ),
    "range gen": (
        """.decl o(x:number) o(x) :- x = range(0,10,3).
.decl d(x:number) d(x) :- x = range(5,2).
.output o .output d
""",
        {"o": [(0,), (3,), (6,), (9,)], "d": [(3,), (4,), (5,)]},
    ),
    "generated facts recursion": (
        """.decl f(n:number,v:number) f(0,0). f(1,1).
f(n+1,a+b) :- f(n,a), f(n-1,b), n < 10.
.decl o(v:number) o(v) :- f(10,v).
.output o
""",
        {"o": [(55,)]},
    ),
    "string functors": (
        """.decl o(a:symbol,b:number,c:symbol,d:number)
o(cat("ab","cd"), strlen("hello"), substr("hello",1,3), to_number("42")).
.decl t(x:symbol) t(to_string(7)).
.decl m(x:symbol) .decl w(x:symbol) w("apple"). w("bana"). m(x) :- w(x), match("a.*e",x).
.decl c(x:symbol) c(x) :- w(x), contains("an",x).
.output o .output t .output m .output c
""",
        {"o": [("abcd", 5, "ell", 42)], "t": [("7",)], "m": [("apple",)], "c": [("bana",)]},
    ),
    "arithmetic": (
        """.decl o(a:number,b:number,c:number,d:number,e:number)
o(7/2, -7/2, 7%3, -7%3, 2^10).
.decl b(a:number,b:number,c:number,d:number,e:number)
b(6 band 3, 6 bor 3, 6 bxor 3, bnot 0, 1 bshl 4).
.decl l(a:number,b:number,c:number) l(2 land 0, 2 lor 0, lnot 5).
.decl m(a:number,b:number) m(max(1,9,3), min(4,2)).
.output o .output b .output l .output m
""",
        {"o": [(3, -3, 1, -1, 1024)], "b": [(2, 7, 5, -1, 16)], "l": [(0, 1, 0)], "m": [(9, 2)]},
    ),
    "unsigned float": (
        """.decl u(x:unsigned) u(5u). u(0xffu).
.decl f(x:float) f(1.5). f(1.5*2.0). f(itof(3)/2.0).
.decl c(n:number) c(ftoi(2.9)).
.output u .output f .output c
""",
        {"u": [(5,), (255,)], "f": [(1.5,), (3.0,)], "c": [(2,)]},
    ),
    "subtypes & union": (
        """.type Person <: symbol
.type City <: symbol
.type Place = Person | City
.decl a(x:Person) a("p"). .decl b(x:City) b("c").
.decl u(x:Place) u(x) :- a(x). u(x) :- b(x).
.output u
""",
        {"u": [("c",), ("p",)]},
    ),
    "disjunction": (
        """.decl a(x:number) a(1). a(2). .decl b(x:number) b(2). b(3).
.decl o(x:number) o(x) :- (a(x) ; b(x)), x != 1.
.output o
""",
        {"o": [(2,), (3,)]},
    ),
    "multi head": (
        """.decl a(x:number) .decl b(x:number) .decl c(x:number) c(4).
a(x), b(x) :- c(x).
.output a .output b
""",
        {"a": [(4,)], "b": [(4,)]},
    ),
    "inline": (
        """.decl sq(x:number,y:number) inline
sq(x,x*x) :- x > 0.
.decl i(x:number) i(3). i(-2).
.decl o(y:number) o(y) :- i(x), sq(x,y).
.output o
""",
        {"o": [(9,)]},
    ),
    "plan": (
        """.decl a(x:number,y:number) a(1,2). .decl b(x:number,y:number) b(2,3). .decl t(x:number,y:number)
t(x,z) :- a(x,y), b(y,z). .plan 0:(2,1)
.output t
""",
        {"t": [(1, 3)]},
    ),
    "limitsize": (
        """.decl a(x:number) a(0). a(x+1) :- a(x).
.limitsize a(n=5)
.decl o(b:number) o(1) :- c = count : a(_), c >= 5, c < 100.
.output o
""",
        {"o": [(1,)]},
    ),
    "as cast": (
        """.type A <: number .type B <: number
.decl a(x:A) a(3). .decl b(x:B) b(as(x,B)) :- a(x).
.output b
""",
        {"b": [(3,)]},
    ),
    "nullary": (
        """.decl go() .decl o(x:number) go(). o(1) :- go(). o(2) :- !go().
.output o
""",
        {"o": [(1,)]},
    ),
    "autoinc": (
        """.decl a(x:symbol) a("p"). a("q"). .decl o(i:number,x:symbol) o(autoinc(),x) :- a(x).
.decl n(c:number) n(c) :- c = count : o(_,_).
.decl r(i:number) r(i) :- o(i,_).
.output n .output r
""",
        {"n": [(2,)], "r": [(0,), (1,)]},
    ),
    "macro": (
        """#define TWICE(r,s) s(x,x) :- r(x).
.decl a(x:number) a(3). .decl o(x:number,y:number)
TWICE(a,o)
#ifdef NOPE
o(0,0).
#endif
.output o
""",
        {"o": [(3, 3)]},
    ),
    "mutual recursion": (
        """.decl ev(x:number) .decl od(x:number) ev(0). od(x+1) :- ev(x), x<6. ev(x+1) :- od(x), x<6.
.output ev
""",
        {"ev": [(0,), (2,), (4,), (6,)]},
    ),
    "nested aggregate": (
        """.decl e(a:number,b:number) e(1,2). e(1,3). e(2,3).
.decl o(m:number) o(m) :- m = max d : { e(a,_), d = count : { e(a,_) } }.
.output o
""",
        {"o": [(2,)]},
    ),
    "negated with unnamed": (
        """.decl n(x:number) n(1). n(2). .decl e(a:number,b:number) e(1,9).
.decl leaf(x:number) leaf(x) :- n(x), !e(x,_).
.output leaf
""",
        {"leaf": [(2,)]},
    ),
    "ord symbol compare": (
        """.decl s(x:symbol) s("b"). s("a"). s("c").
.decl o(x:symbol,y:symbol) o(x,y) :- s(x), s(y), x < y.
.output o
""",
        {"o": [("a", "b"), ("a", "c"), ("b", "c")]},
    ),
    "record compare in head": (
        """.type P = [a:number,b:number]
.decl e(p:P) e([1,2]). e([2,1]).
.decl o(x:number) o(a) :- e(p), p = [a,b], e([b,a]), a < b.
.output o
""",
        {"o": [(1,)]},
    ),
    "same generation": (
        """.decl par(c:symbol,p:symbol) par("a","x"). par("b","x"). par("c","a"). par("d","b").
.decl sg(a:symbol,b:symbol) sg(a,b) :- par(a,p), par(b,p), a != b. sg(a,b) :- par(a,x), sg(x,y), par(b,y).
.output sg
""",
        {"sg": [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]},
    ),
    "subsumption maximal": (
        """.decl i(a:number,b:number)
i(1,5). i(2,3). i(4,9). i(6,7).
i(a,b) <= i(c,d) :- c <= a, b <= d.
.output i
""",
        {"i": [(1, 5), (4, 9)]},
    ),
    "functor user (python)": (
        """.functor tw(x:number):number
.decl a(x:number) a(4). .decl o(x:number) o(@tw(x)) :- a(x).
.output o
""",
        {"o": [(8,)]},
    ),
    "type eq alias": (
        """.type N = number
.decl a(x:N) a(1). .decl b(x:number) b(x) :- a(x).
.output b
""",
        {"b": [(1,)]},
    ),
    "rel with 0 rows printsize": (
        """.decl a(x:number) .printsize a
.decl o(x:number) o(x) :- a(x).
.output o
""",
        {"o": []},
    ),
    "hex bin ip": (
        """.decl o(x:number) o(0x10). o(0b101). o(1.0.0.1).
.output o
""",
        {"o": [(5,), (16,), (16777217,)]},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_feature_gives_what_the_documentation_says(name: str) -> None:
    text, wanted = PROGRAMS[name]
    program = Program.from_source(text)
    if "@tw" in text:
        program.functor("tw", lambda x: 2 * x)
    program.run()
    assert {relation: sorted(program.relation(relation)) for relation in wanted} == wanted
