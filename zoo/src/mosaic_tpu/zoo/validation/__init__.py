"""Checks of the arrays given to a kernel, before it is called."""
