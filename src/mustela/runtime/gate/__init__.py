"""Whether an application may continue: compares record, broker and program before the first write.

Owns: the kinds of differences, and the outcome of each: continue, migrate, or stop with a fix.
Entry: `gate`.
May import: runtime's record and ports, and below.
Must not: write anything, or handle a case outside the table in `answers`.
"""
