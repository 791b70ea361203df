"""What k8s.io/apimachinery is to Kubernetes: JSON and YAML as Go reads them, names, quantities, patches, statuses."""
