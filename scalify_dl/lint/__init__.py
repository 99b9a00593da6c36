"""Checking a distributed program without a baseline: it is lifted to the single-device program that it computes."""
