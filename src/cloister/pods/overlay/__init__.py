"""How a query gets to the nodes and the answers back: in one process, or through NATS.

A node verifies for each request who asks (`tokens`, `proofs`), whatever carried it. Through NATS,
requests and answers are sealed between searcher and node (`sealing`): the broker sees which nodes
are asked, when, and in which size class, and nothing of what is asked or answered.
"""
