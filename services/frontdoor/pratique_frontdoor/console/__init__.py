"""The console: pages that show in a browser what the chain does, served without anything from other machines."""
