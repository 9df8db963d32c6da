"""What brings an application to where it runs: Kubernetes manifests, projects, images.

Owns: the manifests of `mustela k8s`, the project of `mustela new`, the image of `mustela image`.
Entry: manifests.py (manifests), projects.py (write_project), image/build.py (build_image).
May import: runtime and every room below it.
Must not: import spark, talk to a broker, or be needed by an application that runs.
"""
