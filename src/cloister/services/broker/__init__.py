"""The broker: keeps what nodes have published, adds it up, and chooses nodes for a query's terms.

It sees no document, no user and no click: what it holds, nodes had put on their ledgers before.
"""
