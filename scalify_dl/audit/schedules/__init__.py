"""Attacks on the rules of schedules: broken programs of all kinds, run step by step by a simulator of its own."""
