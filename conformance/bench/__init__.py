"""Benches: ratios measured in one run. `python -m conformance.bench`, or `nox -s bench`."""
