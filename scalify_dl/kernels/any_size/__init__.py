"""Kernels whose sizes are symbols: one run that stands for all sizes, on formulas with index variables."""
