"""A first manifest and synthetic traffic for a serving repository that has neither.

checkout    the files of a repository, read without leaving it
source      what Python files of a model say; they are parsed, never run
models      the models of a repository, complete or not
entry       which model repository, and which model of it requests name
vocabulary  the strings that a model knows
inputs      what requests hold, guessed from names, datatypes and dimensions
needs       the packages that models import, and the file that lists them
generator   the traffic script itself; a copy with its tables filled in is written
script      fills the tables in
manifest    the manifest's text
draft       all guesses about one stack, and the texts that hold them
plan        what would be written; then writes it
"""
