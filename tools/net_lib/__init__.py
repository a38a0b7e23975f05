"""A network of hosts on one machine, and allreduces over it."""
