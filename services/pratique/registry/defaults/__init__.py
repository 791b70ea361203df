"""The defaults of built-in kinds, by the types of their fields."""
