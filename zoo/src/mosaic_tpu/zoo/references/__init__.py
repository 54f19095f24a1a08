"""Reference results for the zoo's kernels, in float64 NumPy, written from the mathematics."""
