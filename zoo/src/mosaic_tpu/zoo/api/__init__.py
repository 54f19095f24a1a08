"""The functions a JAX program calls."""
