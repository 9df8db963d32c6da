"""The demonstration: word count from a real broker and back, killed on demand, then checked.

Owns: its input, the program it runs, feeding, kills, checks and output.
Entry: command.py (demo).
May import: broker, commands, and from the library what its command line may.
Must not: take part in what it checks; expected results come from the input alone.
"""
