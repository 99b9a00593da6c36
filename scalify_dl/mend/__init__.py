"""Edits that may mend a wrong program: proposed by rules, tried on copies of the facts."""
