"""From facts to a verdict: run the rules, read their output relations, say what they mean."""
