"""Scheduled HLO as events: what is in flight between `-start` and `-done`, on which bytes."""
