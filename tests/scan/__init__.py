"""`./dev scan`: vulnerabilities of what is locked, licences of what users install, an SBOM."""
