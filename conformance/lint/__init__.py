"""What lint is held against: small kernels, bad and good in pairs, and the kernels of the zoo and the jax wheel."""
