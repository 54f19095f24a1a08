"""Configs and bodies of the zoo's kernels: one module a kernel."""
