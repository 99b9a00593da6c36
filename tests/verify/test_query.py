"""Ad hoc queries become one rule whose head lists the variables."""

import pytest

from scalify_dl.errors import InputError
from scalify_dl.prove.query import parse_query

RELATIONS = {"corr": ["symbol"] * 5, "op": ["symbol"] * 3, "dim": ["symbol", "number", "number"]}


def test_columns_are_the_variables_in_order_with_the_types_of_their_attributes() -> None:
    query = parse_query('corr(D,_,T,_,L), op(D,_,"dot"), dim(D,0,n)', RELATIONS)
    assert query.columns == (("D", "symbol"), ("T", "symbol"), ("L", "symbol"), ("n", "number"))
    assert query.relations == {"corr", "op", "dim"}


def test_a_query_without_variables_asks_whether_it_holds() -> None:
    query = parse_query('op(_,_,"dot").', RELATIONS)
    assert query.columns == ()
    assert query.rule == '.decl query_answer(holds:number)\nquery_answer(1) :- op(_,_,"dot").\n'


def test_columns_that_are_too_few_or_too_many_are_named() -> None:
    types, names = {"op": ["symbol"] * 3}, {"op": ["op", "graph", "kind"]}
    for text in ("op(A)", "op()", "op(A, B, _, D)", "op(X, Y, Z), !op([A, B], C)"):
        with pytest.raises(InputError, match=r"`op` has 3 columns") as error:
            parse_query(text, types, names)
        assert error.value.expected == "op(op, graph, kind)"
    assert parse_query("op(A, [B, C], substr(D, 0, 1))", types, names).columns


def test_names_inside_texts_and_aggregates_are_no_columns() -> None:
    query = parse_query('op(o,_,"corr(X,Y)"), c = count : { dim(o,z,_) }', RELATIONS)
    assert [name for name, _ in query.columns] == ["o", "c"]


@pytest.mark.parametrize("text", ["", "  ", "nope(x)", "op(x,_,_)) ", "a(x) :- op(x,_,_)"])
def test_what_is_no_query_is_bad_input(text: str) -> None:
    with pytest.raises(InputError):
        parse_query(text, RELATIONS)


@pytest.mark.parametrize("text", ["input(X", "input(G,_,X)", "op(O,_,_), !input(_,_,O)", "range(X,_,_,_)"])
def test_a_table_whose_name_is_a_word_of_the_language_is_told_its_relation(text: str) -> None:
    tables = {"input": "graph_input", "range": "value_range"}
    columns = {"graph_input": ["graph", "pos", "tensor"], "value_range": ["tensor", "lo", "hi", "why"]}
    relations = RELATIONS | {name: ["symbol"] * len(has) for name, has in columns.items()}
    with pytest.raises(InputError, match="is a word of the language") as error:
        parse_query(text, relations, columns, tables)
    assert error.value.expected in ("graph_input(graph, pos, tensor)", "value_range(tensor, lo, hi, why)")
    assert parse_query("op(O,_,_), i = range(0, 3)", relations, columns, tables).columns
