"""A private certificate authority: who is who between the services of a federation.

Keys are ECDSA on P-256 with SHA-256. OpenSSL (and with it uvicorn and httpx), BoringSSL (gRPC) and
browsers all take them; BoringSSL takes no certificate with an Ed25519 key unless it is told to.
"""
