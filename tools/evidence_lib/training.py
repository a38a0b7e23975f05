"""One training by one contender: steps to the quality, and the curve."""

import time

import numpy as np

from .contenders import BY_NAME
from .domains import DOMAINS, Training

_DIVERGED = 1e3


def steps_to_quality(domain_name, contender_name, rank_count, seed):
    """{"steps": to the quality, None if it is not reached, "curve": [[step, loss on held-out
    data]], "error": mean of |G - mean|^2 / |mean|^2 over the steps, "seconds"}. Ends at the
    quality; a loss that is not finite ends it as well."""
    begin_s = time.process_time()
    domain = DOMAINS[domain_name]
    training = Training(domain, seed)
    mean_of = BY_NAME[contender_name].make(training.shapes, seed)
    curve, errors, reached = [[0, training.quality()]], [], None
    for step in range(1, domain.most_steps + 1):
        inputs = training.gradients(rank_count)
        mean = mean_of(inputs, step)
        exact = inputs.mean(axis=0, dtype=np.float64)
        errors.append(float(np.square(mean - exact).sum() / np.square(exact).sum()))
        training.apply(mean)
        if step % domain.evaluate_every == 0:
            curve.append([step, round(training.quality(), 5)])
            if not curve[-1][1] < _DIVERGED:
                break
            if curve[-1][1] <= domain.quality:
                reached = step
                break
    return {"steps": reached, "curve": curve, "error": float(np.mean(errors)),
            "seconds": round(time.process_time() - begin_s, 1)}
