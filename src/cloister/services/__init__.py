"""Services that run between organisations: node, broker and coordinator.

A *node* runs next to the data: documents, index, clicks, local updates. The *broker* keeps what
nodes publish and chooses among them. The *coordinator* runs rounds and keeps rankers.
"""
