"""Rules files of somebody's own: they only add, and every verdict says which were loaded."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scalify_dl.audit.derive import load_rules
from scalify_dl.audit.fuzz.coverage import grants_whole
from scalify_dl.certificate.check import Checker
from scalify_dl.certificate.files import CertificateError
from scalify_dl.certificate.rules import read_rules
from scalify_dl.errors import InputError
from scalify_dl.facts.files import load
from scalify_dl.pairing.export import export
from scalify_dl.prove.options import Options
from scalify_dl.prove.own_rules import read_own
from scalify_dl.prove.pipeline import analyse, rules_program
from scalify_dl.prove.verdict import Verdict
from scalify_dl.pysouffle import rules_dir
from scalify_dl.report.conclude import conclude

FACTS = Path(__file__).parents[2] / "facts"
PROVED, WRONG = FACTS / "row_parallel_linear", FACTS / "megatron_mlp_wrong_group"


def written(folder: Path, text: str, name: str = "own.dl") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_every_verdict_says_which_rules_were_loaded(tmp_path: Path) -> None:
    more = written(tmp_path, 'commutative("my-op").\n', "more.dl")
    own = written(tmp_path, '#include "more.dl"\nelementwise("my-op").\n')
    for facts in (PROVED, WRONG):
        report = conclude(analyse(load(facts), Options(rules=(own,), refute=False)))
        listed = {a.tensor: a.text for a in report.assumptions if a.why == "rules"}
        assert listed.keys() == {"own.dl", "more.dl"}
        for file in (own, more):
            assert hashlib.sha256(file.read_bytes()).hexdigest() in listed[file.name]
    strict = Options(rules=(own,), refute=False, strict=True)
    assert conclude(analyse(load(PROVED), strict)).verdict is Verdict.UNKNOWN


REFUSED = [
    'output_verdict(d, t, "PROVED", "x") :- expect(d, t, _).',
    "accepted(d, t, l) :- expect(d, t, _), holds(_, _, l).",
    "assumption(a, b, c) <= assumption(d, e, f) :- a = d, b = e.",
    'assumption("a", "b", "c").',
    'inconsistent("a").',
    'expect("a", "b", "").',
    'shard(d, "", t, "", "", "given") :- expect(d, t, _).',
    "voided(d) <= voided(e) :- d != e.",
    "broken(o) <= broken(p) :- o != p.",
    "kept_up(a, b, i, l) :- supposed(a, b, i, l).",
    "holds(d, t, l) <= holds(e, u, k) :- d = e, t = u, l != k.",
    "factor(a, b, c, d) <= factor(e, f, g, h) :- a = e, b = f, c = g, d < h.",
    "covers(l, s) :- want_covers(l, s).",
    'open_to_users("accepted").',
    'open_to_users("open_to_users"). open_to_users("accepted"). accepted(d, t, l) :- expect(d, t, _), holds(_, _, l).',
    "wanted_calm(l) :- wanted_layout(l).",
    "wanted(d, t, l) :- holds(d, t, l).",
    "wanted_whole(d, t, l) :- wanted(d, t, l).",
    "canonical(d, t) :- expect(d, t, _).",
    "proved(f, 0, 1) :- claim(f, _).",
    '.decl own(a:symbol, b:symbol, c:symbol) .input own(filename="expect.facts")',
    ".input op",
    '.input shard(filename="other.facts")',
    ".limitsize assumption(n=0)",
    '.pragma "legacy"',
    ".functor f(x:number):number",
    ".decl p(x:number)\np(@f(1)).",
    ".decl p(x:number)\np(1).\np(x) :- p(x), x < 2. .plan 0:(1)",
    "#define expect nothing",
    '#line 1 "verdict.dl"',
    "#if 1\n#endif",
    ".inp\\\nut op",
    '.decl p(x:symbol)\np("a).\n',
    ".comp C { accepted(d, t, l) :- expect(d, t, _), holds(_, _, l). }\n.init c = C",
    ".comp C { .decl p(x:number) overridable }\n.comp D : C { .override p }\n.init d = D",
    '.decl a(x:number)\na(1), assumption("a", "b", "c") :- a(_).',
    ".decl own(x:symbol, y:symbol)\nown(d, t), own(t, d) :- holds(d, t, _).",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_file_may_not_judge_hide_or_read_facts(tmp_path: Path, text: str) -> None:
    own = written(tmp_path, f"// rules\n{text}\n")
    for load_them in (rules_program, load_rules):
        with pytest.raises(InputError) as error:
            load_them([own])
        assert "own.dl" in str(error.value)


@pytest.mark.parametrize("text", [text for text in REFUSED if "pragma" not in text])  # it obeys none
def test_the_checker_refuses_them_as_well(tmp_path: Path, text: str) -> None:
    own = written(tmp_path, f"{text}\n")
    with pytest.raises(CertificateError):
        Checker([rules_dir() / "verify.dl", own], rules_dir())


ACCEPTED = [
    'opaque("custom:f", "does"). elementwise("custom:f"). linear_operand("custom:f", 0, 1, "sum").',
    'holds(d, t, l) :- holds(d, t, l), op(o, _, "sine"), result(o, 0, d).',
    "want_covers(l, s) :- holds(_, t, l), shape(t, s).",
    'want_covers(l, s), want_quiet(m) :- l = [_, m, _, _], holds(d, t, l), shape(t, s), cat("wanted(", d) != "x".',
    ".decl own(x:number)\nown(1). own(x + 1) :- own(x), x < 5.\n.output own",
    ".decl own(x:number, y:number)\nown(1, 2).\nown(a, b) <= own(c, d) :- a = c, b < d.",
    '.comp C { .decl p(x:symbol) p(o) :- op(o, _, _). }\n.init c = C\nelementwise(k) :- c.p(o), op(o, _, k), k = "x".',
    '.decl own(x:symbol)\nown("#include @f .input").  // #define .pragma @',
    '.decl own(x:symbol)\n/* .input\n#if */ own("\\"#").',
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_file_may_add(tmp_path: Path, text: str) -> None:
    own = written(tmp_path, text + "\n")
    rules_program([own])
    load_rules([own])


def test_what_is_open_is_what_the_documentation_says() -> None:
    rules = read_rules([rules_dir() / "verify.dl"])
    opened = {c.head.args[0].value for c in rules.clauses if c.head.relation == "open_to_users"}
    assert opened <= rules.relations.keys()
    text = (Path(__file__).parents[2] / "docs" / "adding_an_op.md").read_text("utf-8")
    assert [name for name in sorted(opened) if name not in text] == []


@pytest.mark.parametrize("name", ["secret.txt", "secret", "x.facts"])
def test_what_is_no_rules_file_is_not_shown(tmp_path: Path, name: str) -> None:
    written(tmp_path, "password hunter2\n", name)
    link = tmp_path / "link.dl"
    link.symlink_to(tmp_path / name)
    for own in (written(tmp_path, f'\n#include "{name}"\n'), written(tmp_path, '\n#include "link.dl"\n', "b.dl"), link):
        with pytest.raises(InputError) as error:
            rules_program([own])
        assert "hunter2" not in str(error.value)
        assert "no rules file" in str(error.value)


def test_an_include_that_is_not_there_is_bad_input_with_its_line(tmp_path: Path) -> None:
    own = written(tmp_path, '\n\n#include "nowhere.dl"\n')
    with pytest.raises(InputError, match="no such rules file"):
        read_own([own], rules_dir())


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("holds(d, t, [l, m, 1, 1]) :- p(d, t), shape(d, s), identity_layout(s, l), full_replicated(m).", True),
        ("holds(d, t, [l, m, 1, 1]) :- p(d, t), shape(d, s), identity_layout(s, l), some(m).", False),
        ("holds(d, t, [l, m, 1, 1]) :- p(d, t), !identity_layout(s, l), full_replicated(m).", False),
        ("holds(d, t, [l, m, 1, 1]) :- identity_layout(s, l), (full_replicated(m) ; some(m)).", False),
        ("holds(d, t, [l, m, 1, 2]) :- identity_layout(s, l), full_replicated(m).", False),
        ("holds(d, t, l) :- holds(d, t, l).", False),
        ('holds(d, t, [l, m, 1, 1]) :- p("identity_layout(s, l)", "full_replicated(m)").', False),
    ],
)
def test_a_lemma_that_grants_whole_values_only_is_seen_to_do_so(text: str, whole: bool) -> None:
    """Else `@whole` above it says nothing, and it has to be exercised like any other."""
    assert grants_whole(text) == whole


def test_a_certificate_that_the_checker_would_not_read_is_not_written(tmp_path: Path) -> None:
    from scalify_dl.prove.certificate import write

    own = written(tmp_path, ".comp C { .decl p(x:number) }\n.init c = C\n")
    analysis = analyse(load(PROVED), Options(rules=(own,), refute=False))
    with pytest.raises(InputError, match="does not understand the rules"):
        write(analysis, conclude(analysis), tmp_path / "c.gz")
    assert not (tmp_path / "c.gz").exists()


CALL = """\
HloModule m

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  ROOT %y = f32[8] custom-call(%x), custom_call_target="RowGate"
}
"""


ABSENT = "neither program has"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("custom:Rowgate", f"the rules speak of `custom:Rowgate`, which {ABSENT}; is `custom:RowGate` meant?"),
        ("custom:RowGate", ""),
        ("custom:Attention", ""),
    ],
)
def test_a_call_that_is_misspelt_is_told(tmp_path: Path, kind: str, told: str) -> None:
    (tmp_path / "a.hlo").write_text(CALL)
    own = written(tmp_path, f'// custom:RowGate, or "custom:RowGate"\nelementwise("{kind}").\n')
    facts = export(tmp_path / "a.hlo", tmp_path / "a.hlo", "tp=2")
    report = conclude(analyse(facts, Options(rules=(own,), refute=False)))
    assert [note for note in report.notes if "meant?" in note] == ([told] if told else [])
