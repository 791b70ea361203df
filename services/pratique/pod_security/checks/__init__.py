"""The checks of the Pod Security Standards, a file for each thing that Pods may not do."""
