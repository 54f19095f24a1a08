"""Small kernels that the TPU compiler refuses, each with a twin that follows the error's advice and compiles.

The causes are those of public reports; the kernels are written for this table.
"""
