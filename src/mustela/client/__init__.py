"""The client of an application's stores over HTTP, for Python elsewhere.

Owns: `Client` and `AsyncClient`, and what a request and its answer are. Entry: client.py. May
import: serdes and the rooms below it; httpx, when a client is made. Must not: know how the server
makes its answers.
"""
