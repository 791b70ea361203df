"""The validator: a service that hosts the validating halves of controllers."""
