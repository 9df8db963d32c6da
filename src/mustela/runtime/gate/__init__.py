"""Whether an application may go on: record, broker and program, compared before the first write.

Owns: the kinds of differences, and for each what happens: go on, migrate, or stop with a way on.
Entry: `gate`.
May import: runtime's record and ports, and below.
Must not: write anything, or hold a special case that is not a row of the table in `answers`.
"""
