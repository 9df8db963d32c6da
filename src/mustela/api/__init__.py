"""What a user names: options, windows, processors and their contexts, timers, calls, errors.

Owns: declarations, the checks of what is declared, the contexts of processors over the port that an
engine fills, and how a wrong call is answered with the user's line.
Entry: options.py (Materialized), processor.py (Processor), context.py (ProcessorContext).
May import: state and every room below it.
Must not: know steps, handles or plans; run anything but what a user's call asks for.
"""
