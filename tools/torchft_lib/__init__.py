"""A training by torchft on several hosts, of which replicas are killed and restarted."""
