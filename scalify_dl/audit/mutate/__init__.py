"""Mutation campaign: real graphs, broken in every way we can think of."""
