"""Security contexts of Pods and containers."""
