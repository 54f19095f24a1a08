"""Working kernels, and the faults that are planted in them: what the simulator must find, and must not."""
