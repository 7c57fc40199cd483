"""The documentation that is installed along with the program, and which topics of help it makes.

Needs nothing of the service, so that ``statewright help`` works wherever the program is installed.
"""
