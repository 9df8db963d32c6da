"""Settings, typed and checked.

Owns: the settings model, its sources and their order, aliases, masking, did-you-mean.
Entry: settings.py (Settings).
May import: model, errors.
Must not: be needed on Spark's executors, which get plain values.
"""
