"""Sites and a coordinator on Flower 1.41, through its message API.

Flower carries bytes. On a site a process of ours takes them from the SuperNode and answers, and on
the coordinator's machine another one runs the rounds: neither runs code that came over the wire.
"""
