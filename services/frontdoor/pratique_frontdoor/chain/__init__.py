"""The chain: phases, order, matching, reinvocation, failure policies.

Data flows one way: review → match → call → outcome → patch → next … → decision. The same code runs behind HTTP, in
``pratique review`` and in tests; only the transports differ.
"""
