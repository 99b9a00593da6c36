"""Certificates: a derivation written down step by step, and a checker that shares no code with the engine.

`write` takes a finished run and writes its proof. `check` replays a proof against facts and rule files: what a
certificate has to show (`structure`), claims of arithmetic (`decide`), relations that are computed (`closed`). Rules
are read (`rules`, `terms`) and turned into functions (`plans`, `functors`) by its own means.
"""
