"""Exact JSON: decoding and encoding without loss, and the classification of numbers and temporal texts.

Pure: no input, no output, no clock. Everything above this package sees documents only as the values defined here.
"""
