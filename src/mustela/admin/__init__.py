"""The admin server: status and operations of a running application over HTTP.

Owns: endpoints, access to them, metrics, the file by which the command line finds the server.
Entry: server.py (AdminServer), which the runtime finds by its entry point. May import: runtime and
every room below it; starlette, uvicorn and prometheus_client, only when it runs. Must not: make the
driver wait, show a secret, or answer an unauthorized request.
"""
