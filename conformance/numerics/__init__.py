"""Kernels against their mathematics: each case's result, simulated, within a tolerance derived beside it."""
