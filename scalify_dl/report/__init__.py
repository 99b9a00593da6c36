"""Renderers of a `scalify_dl.verify.verdict.Report`: terminal, JSON, SARIF and HTML."""
