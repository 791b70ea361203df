"""The mutator: a service that hosts the mutating halves of controllers."""
