"""The mutator: a service that runs mutating admission controllers."""
