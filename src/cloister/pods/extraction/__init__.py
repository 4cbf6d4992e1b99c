"""Reads hostile documents: the words of a document are taken from it by limited child processes.

`child` is what runs there, `confinement` what it takes from itself before it reads anything, and
`pool` the side of the program that has documents to read.
"""
