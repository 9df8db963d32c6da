"""OCI images of applications, made without a daemon and without a registry.

Owns: layers, layouts, the lock of Debian packages, what goes in of environment and project.
Entry: build.py (build_image), locks.py (make_lock).
May import: config, java, errors; inside: build > all others.
Must not: run the user's program, or anything that a package brings.
"""
