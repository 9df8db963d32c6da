"""Applications over DataFrames and files: `mustela.batch`.

Owns how inputs become records in files, where epochs are cut, and the result. Start at ``run``.
The epochs themselves are those of the engine, with the same kernel and state.
"""
