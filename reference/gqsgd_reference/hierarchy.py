"""Sums over nodes, and over the ranks of nodes (FORMAT.md section 10, hierarchical)."""

from dataclasses import replace

from .levels import encodes_nodes_down
from .wide import add_scaled_means, add_wide


def nodes_of(ids):
    """The ranks of each node, nodes in order of their lowest ranks. ids: one per rank."""
    nodes = {}
    for rank, node in enumerate(ids):
        nodes.setdefault(node, []).append(rank)
    return list(nodes.values())


def nodes_string(ids):
    """As a communicator's option has them."""
    return ":".join(str(node) for node in ids)


def nodes_digest(ids):
    """The 16 bits of a header that tell different nodes apart (section 11)."""
    nodes = nodes_of(ids)
    number = {rank: node for node, ranks in enumerate(nodes) for rank in ranks}
    value = 0x811C9DC5
    for rank in range(len(ids)):
        value = (value ^ number[rank]) * 0x01000193 % 2**32
    return value >> 16 ^ value % 2**16


def is_flat(ids):
    """Whether there is no hierarchy: one node, or no node with two ranks."""
    nodes = nodes_of(ids)
    return len(nodes) <= 1 or len(nodes) == len(ids)


def shard_places(ids):
    """[(part, node)] of the shards of a call, in order."""
    nodes = nodes_of(ids)
    parts = max(len(ranks) for ranks in nodes)
    return [(part, node) for part in range(parts) for node in range(len(nodes))]


def add_part(request, form, place, operands, norms, value_count, first_value, add=add_wide,
             add_means=add_scaled_means):
    """(words, scales) of the wide sum of one part, or of a range in it.

    place: its owner, or the (part, node) of a shard; operands: its words on every rank, as
    quantized; add, add_means: like add_wide and add_scaled_means, for operands and results that are
    not words.
    """
    given = norms, value_count, first_value
    if not isinstance(place, tuple):
        return add(form, request.call, place, operands, *given)
    part, node = place
    nodes = nodes_of(request.nodes)
    sums = [_node_sum(form, request.call, nodes, number, part, operands, *given, add)
            for number in range(len(nodes))]
    weights = [len(ranks) for ranks in nodes]
    owner = _owner(nodes[node], part)
    if encodes_nodes_down(form):
        form = form.down
        if form.rescale:
            return add_means(form, request.call, owner, sums, weights, value_count, first_value)
    return add(form, request.call, owner, [words for words, _ in sums], *given,
               hop=2, weights=weights)


def _owner(ranks, part):
    return ranks[part % len(ranks)]


def _node_sum(form, call, nodes, number, part, operands, norms, value_count, first_value, add):
    """What the part's owner on a node makes of the codes there, (words, scales): the node's mean,
    as the codes of one rank or as the result is encoded."""
    ranks = nodes[number]
    of_node = replace(form, rank_count=len(ranks), rounding_down="random", node=number,
                      node_count=len(nodes))
    if not encodes_nodes_down(form):
        if len(ranks) == 1:
            return operands[ranks[0]], norms
        of_node = replace(of_node, bits_down=0, rescale=False)
    return add(of_node, call, _owner(ranks, part), [operands[rank] for rank in ranks], norms,
               value_count, first_value)
