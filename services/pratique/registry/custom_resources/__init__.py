"""CustomResourceDefinitions: structural schemas, and what they make of custom resources."""
