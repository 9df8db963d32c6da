"""The admin server: what a running application shows of itself over HTTP, and lets be done to it.

Owns: endpoints, who may ask them, metrics, the file that tells the command line where to ask.
Entry: server.py (AdminServer), which the runtime finds by its entry point.
May import: runtime and every room below it; starlette, uvicorn and prometheus_client, when it runs.
Must not: make the driver wait, show a secret, or answer whom nobody has let in.
"""
