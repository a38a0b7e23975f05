"""What steps of all kinds share: made-up images, and the check that ranks have the same bits."""

import torch
import torch.distributed as dist

PIXELS, CLASSES, IMAGES = 784, 10, 16
LEARNING_RATE = 0.1


def teacher():
    """The fixed random map that labels come from."""
    return torch.randn(PIXELS, CLASSES, generator=torch.Generator().manual_seed(7))


def batch(rank, number, labelling):
    """Images made up, and labels that the map `labelling` gives them."""
    generator = torch.Generator().manual_seed(1000 * number + rank)
    images = torch.randn(IMAGES, PIXELS, generator=generator)
    return images, (images @ labelling).argmax(dim=1)


def check_equal(tensors, what):
    """All ranks hold the same values, bit for bit."""
    own = torch.cat([each.detach().flatten() for each in tensors])
    first = own.clone()
    dist.broadcast(first, 0)
    assert torch.equal(own, first), f"{what} differ"
