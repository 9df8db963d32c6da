"""What brings an application to where it runs: Kubernetes manifests, projects, images.

Owns: the manifests that `mustela k8s` prints; the project that `mustela new` writes.
Entry: manifests.py (manifests), projects.py (write_project).
May import: runtime and every room below it.
Must not: import spark, talk to a broker, or be needed by an application that runs.
"""
