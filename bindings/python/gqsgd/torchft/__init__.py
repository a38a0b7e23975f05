"""Global-QSGD for torchft: a process group whose gradients travel in 8 or 4 bits, and which goes on
when replicas die. Imported on demand, never by gqsgd; needs torchft (`pip install torchft`).

    import gqsgd.torchft

    manager = torchft.Manager(pg=gqsgd.torchft.ProcessGroup("blocks-8"), ...)

docs/ELASTIC.md has a whole program.
"""

from .policy import LargeFloats as LargeFloats
from .process_group import ProcessGroup as ProcessGroup

__all__ = ["LargeFloats", "ProcessGroup"]
