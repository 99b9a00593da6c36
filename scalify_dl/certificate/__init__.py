"""Certificates: a derivation written down step by step, and a checker that shares no code with the engine.

`write` takes a finished run and writes its proof; `check` replays a proof against the facts and the rule files, with
its own reader of rules (`rules`), its own evaluation of rule instances (`instance`) and of complete relations
(`closed`).
"""
