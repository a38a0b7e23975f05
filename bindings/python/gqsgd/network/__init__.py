"""Groups between machines: `gqsgd.network_id`, `Communicator.network` and `from_env`; and groups
that change: `Communicator.reconfigure`, `Communicator.join`, `gqsgd.local_id`."""

from .elastic import ElasticGroups as ElasticGroups
from .elastic import local_id as local_id
from .groups import NetworkGroups as NetworkGroups
from .groups import network_id as network_id
