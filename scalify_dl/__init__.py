"""Scalify-DL: proves that a distributed ML program computes what its single-device baseline computes."""

__version__ = "0.1.0"
