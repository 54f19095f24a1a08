"""The part of the site that is made, not written: ``python -m docs.generate`` puts all pages into ``.docs/pages``."""
