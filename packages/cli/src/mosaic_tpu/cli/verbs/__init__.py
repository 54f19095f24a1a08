"""The verbs: a file each, imported when it is used."""
