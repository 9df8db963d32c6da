"""One epoch, from the choice of what it reads to what is learned from it.

Owns: what the parts of the driver's loop share, the look at the broker, the choice, the job with
its failures, the commit.
Entry: run.py (what is shared), epoch_chooser.py, epoch_job.py, epoch_commit.py.
May import: every other sub-room of the runtime but repairs.
"""
