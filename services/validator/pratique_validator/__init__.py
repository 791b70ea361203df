"""The validator: a service that runs validating admission controllers."""
