"""The verbs: a file each, imported when it is used.

They evaluate their annotations where they stand: cyclopts reads them all, and would compile each one out of a string.
"""
