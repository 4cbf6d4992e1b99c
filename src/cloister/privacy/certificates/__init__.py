"""A private certificate authority: who is who between the services of a federation.

Keys are ECDSA on P-256 with SHA-256, the one kind that OpenSSL (and with it uvicorn and httpx),
BoringSSL (gRPC) and browsers all take by default; browsers and BoringSSL do not take Ed25519.
"""
