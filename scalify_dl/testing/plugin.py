"""The pytest plugin: a fixture, a marker, and the pairs of `dlverify.toml` as tests.

    @pytest.mark.dlverify(mesh={"tp": 2})
    def test_attention(dlverify):
        dlverify(attention, parallel_attention, args=(x,))      # fails unless PROVED

    pytest --dlverify                                           # every pair of dlverify.toml is a test

Arguments of the marker are defaults for those of the fixture, which are those of `scalify_dl.assert_equivalent`.
`dlverify.report(…)` gives the report, whatever its verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from scalify_dl.api import Report
    from scalify_dl.project import Pair

MARKER = (
    "dlverify(mesh=..., relate=..., allow_unknown=False, ...): defaults for what the `dlverify` fixture is called with"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--dlverify`."""
    group = parser.getgroup("dlverify", "equivalence of distributed programs")
    group.addoption("--dlverify", action="store_true", help="verify the pairs that dlverify.toml names, as tests")


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known."""
    config.addinivalue_line("markers", MARKER)


class Checker:
    """What the fixture gives: call it to assert, `report` to look."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(self, base: Any, dist: Any = None, **options: Any) -> Report:
        """The report of a pair that is PROVED; the test fails with all there is to say about any other."""
        __tracebackhide__ = True
        from scalify_dl.api import NotEquivalent, assert_equivalent

        try:
            return self._kept(assert_equivalent(base, dist, **self._with_defaults(options)))
        except NotEquivalent as failed:
            self._kept(failed.report)
            raise

    def report(self, base: Any, dist: Any = None, **options: Any) -> Report:
        """The report of a pair, whatever its verdict."""
        __tracebackhide__ = True
        from scalify_dl.api import verify

        given = self._with_defaults(options)
        given.pop("allow_unknown", None)
        return self._kept(verify(base, dist, **given))

    def _with_defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        defaults: dict[str, Any] = {}
        for marker in reversed([*self._item.iter_markers("dlverify")]):
            defaults |= marker.kwargs
        return defaults | options

    def _kept(self, report: Report) -> Report:
        self._item.user_properties.append(("dlverify", repr(report)))
        return report


@pytest.fixture
def dlverify(request: pytest.FixtureRequest) -> Checker:
    """Asserts that a distributed program computes what its baseline does."""
    return Checker(request.node)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--dlverify`, the pairs of the configuration are tests, too."""
    if not config.getoption("--dlverify"):
        return
    from scalify_dl.errors import InputError
    from scalify_dl.project import find

    try:
        project = find(config.rootpath)
    except InputError as error:
        raise pytest.UsageError(f"dlverify: {error}") from None
    if project is None or not project.pairs:
        raise pytest.UsageError(f"--dlverify: no dlverify.toml with [pairs.NAME] in {config.rootpath} or above")
    for pair in project.pairs.values():
        items.append(PairItem.from_parent(session, name=f"dlverify::{pair.name}", pair=pair))


class PairItem(pytest.Item):
    """A pair of the configuration."""

    def __init__(self, *, pair: Pair, **more: Any) -> None:
        super().__init__(**more)
        self.pair = pair

    def runtest(self) -> None:
        """Passes where the verdict is the one that is right."""
        from scalify_dl.api import NotEquivalent, verify

        p = self.pair
        p.there()
        options: dict[str, Any] = {
            "rules": p.rules, "strict": p.strict, "accept": p.accept, "timeout": p.timeout, "max_memory": p.max_memory,
        }  # fmt: skip
        if p.facts is not None:
            report = verify(p.facts, **options)
        else:
            report = verify(p.base, p.dist, mesh=p.mesh, relate=p.relate, sizes=p.sizes, **options)
        self.user_properties.append(("dlverify", repr(report)))
        if report.verdict.value != p.expect:
            raise NotEquivalent(report)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The report, or what is wrong with the input."""
        from scalify_dl.api import NotEquivalent
        from scalify_dl.errors import InputError

        if isinstance(excinfo.value, NotEquivalent | InputError):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where it comes from."""
        return self.path, None, self.name
