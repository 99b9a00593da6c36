"""Capture of live models: what a framework runs, written as text that the front ends read. Each needs its framework."""
