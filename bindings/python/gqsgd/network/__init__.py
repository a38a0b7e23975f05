"""Groups between machines: `gqsgd.network_id`, `Communicator.network` and `from_env`."""

from .groups import NetworkGroups as NetworkGroups
from .groups import network_id as network_id
