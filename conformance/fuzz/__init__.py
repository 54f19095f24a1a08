"""Differential fuzzing: random programs on both engines of the simulator, and on NumPy.

A program is plain data (`program`). `emit` writes it with the builder, `oracle` computes it with NumPy, each in its own
way; `ops` has the operations on values, each with both meanings. `strategies` draws healthy programs with hypothesis,
`engines` runs and compares them, `plant` spoils them on purpose. ``python -m conformance.fuzz`` runs many.
"""
