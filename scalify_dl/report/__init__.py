"""Renderers of a `scalify_dl.prove.verdict.Report`: terminal, JSON, SARIF and HTML."""
